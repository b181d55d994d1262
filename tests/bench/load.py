"""Measure loading: `python -m tests.bench.load [--json FILE] [--check] [--megabytes N]`.

Writes one synthetic target in each published kind of packing and loads each in a fresh process: seconds against plain
reading of the same file, and peak memory against the weights, which are the bytes held once loading is over.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.running import machine
from tests.bench.synthetic import KINDS, write

PEAK = 1.15
"""Most bytes that may be in use while loading, as a share of those held afterwards."""


def measured(folder: Path, repeats: int) -> dict[str, float]:
    """Each figure's best of several fresh processes, since what disturbs one only adds."""
    runs: list[dict[str, float]] = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "tests.bench.loading", str(folder)]
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(child.stdout))
    return {name: min(run[name] for run in runs) for name in runs[0]}


def missed(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Every packing whose peak is above the goal."""
    return [
        f"{kind}: {name} is {found[name]:.3f} of the weights, to stay within {PEAK}"
        for kind, found in figures.items()
        for name in ("peak", "peak_rss")
        if found[name] > PEAK
    ]


def line(kind: str, found: Mapping[str, float]) -> str:
    """One packing as text."""
    return (
        f"{kind:8}{found['file_mb']:7.0f} MB file {found['held_mb']:7.0f} MB held  "
        f"{found['load_seconds']:6.2f} s, {found['load_seconds_per_gb']:5.2f} s/GB of file, "
        f"{found['load_to_read']:5.1f} x reading  peak {found['peak']:.3f} (MLX), {found['peak_rss']:.3f} (process)"
    )


def main() -> None:
    """Write, measure, print, check."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load", description="Measure loading.")
    parser.add_argument("--megabytes", type=int, default=500, help="weights in bfloat16; packed files are smaller")
    parser.add_argument("--repeats", type=int, default=3, help="fresh processes a packing; the best is shown")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--check", action="store_true", help="fail, naming each packing whose peak misses the goal")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        with TemporaryDirectory() as place:
            write(Path(place), kind, options.megabytes)
            figures[kind] = measured(Path(place), options.repeats)
        print(line(kind, figures[kind]), flush=True)
    surroundings: dict[str, Any] = machine()
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": surroundings, "runs": figures}, indent=2) + "\n")
    lines = missed(figures) if options.check else []
    if lines:
        raise SystemExit("missed:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
