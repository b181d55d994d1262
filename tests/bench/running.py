"""What every bench does around its measurement: both BLAS in turn, a table, JSON, plots, and the goals it misses."""

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from tests.bench.blas import ABSENT, find_openblas
from tests.bench.goals import Figures, Runs


class Measured(Protocol):
    """A bench."""

    def __call__(self, library: Path | None, options: argparse.Namespace) -> Figures:
        """All figures with this BLAS (None: the one that comes with MLX)."""
        ...


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
    } | {name: version(name) for name in ("mlx", "mlx-lm")}


def parser(name: str, description: str, repeats: int) -> argparse.ArgumentParser:
    """The options that all benches have."""
    made = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}", description=description)
    made.add_argument("--repeats", type=int, default=repeats, help="interleaved repeats; medians are shown")
    made.add_argument("--json", type=Path, help="write all figures to this file")
    made.add_argument("--check", action="store_true", help="fail, naming each figure that misses its goal")
    made.add_argument("--only", choices=("bundled", "openblas"), help="measure with one BLAS alone")
    return made


def run(
    options: argparse.Namespace,
    measured: Measured,
    table: Callable[[Figures], Mapping[str, str]],
    missed: Callable[[Runs], list[str]],
    draw: Callable[[Runs], None] | None = None,
) -> None:
    """Measure with both BLAS, print, write, draw and check.

    Raises:
        SystemExit: a goal is missed, with --check.
    """
    surroundings, runs = machine(), dict[str, Figures | None]()
    for blas in ("bundled", "openblas") if options.only is None else (options.only,):
        library = find_openblas() if blas == "openblas" else None
        if blas == "openblas" and library is None:
            runs[blas] = None
            print(f"## openblas\n{ABSENT}")
            continue
        figures = measured(library, options)
        runs[blas] = figures
        print("\n".join([f"## {blas}", *(f"{name:40}{value}" for name, value in table(figures).items())]), flush=True)
    surroundings |= {"load_after": [round(value, 2) for value in os.getloadavg()]}
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": surroundings, "runs": runs}, indent=2) + "\n")
    if draw is not None:
        draw(runs)
    lines = missed(runs) if options.check else []
    if lines:
        raise SystemExit("missed:\n" + "\n".join(lines))
