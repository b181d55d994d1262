"""Measure the decoding loop: `python -m tests.bench.decode [--model PATH] [--json FILE] [--check]`.

One run measures twice, each time in a process of its own: with the BLAS that comes with MLX, and with OpenBLAS.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.blas import ABSENT, environment, find_openblas
from tests.bench.goals import Figures, missed


def measured(library: Path | None, model: str, chats: int, repeats: int) -> Figures:
    """The figures of a child process that uses this BLAS."""
    command = [sys.executable, "-m", "tests.bench.measure", model, str(chats), str(repeats)]
    child = subprocess.run(command, env=environment(library), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(child.stdout)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    load = [round(value, 2) for value in os.getloadavg()]
    versions = {name: version(name) for name in ("mlx", "mlx-lm")}
    return {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
    } | (versions)


def table(blas: str, figures: Figures) -> str:
    """One run as text."""
    rates, ratios, always = figures["tokens_per_second"], figures["ratios"], figures["greedy"]["always"]
    shown: Mapping[str, str] = {
        "square product": f"{figures['gemm_gflops']:.1f} GFLOP/s",
        "prompts": f"{figures['prompts']}, {always['tokens']} tokens",
        "accepted a round (always, greedy)": f"{always['accepted_per_round']:.2f} over {always['rounds']} rounds",
        "  by depth": " ".join(f"{share:.2f}" for share in always["accepted_per_round_by_depth"]),
        "accepted a round at 0.7 / 1.2": " / ".join(
            f"{figures[f'temperature {t}']['accepted_per_round']:.2f}" for t in ("0.7", "1.2")
        ),
        "tokens a second": ", ".join(f"{arm} {rate:.1f}" for arm, rate in rates.items()),
        "off / mlx-lm": f"{ratios['off_to_mlx_lm']:.3f}",
        "auto / off": f"{ratios['auto_to_off']:.3f}",
        "always / off": f"{ratios['always_to_off']:.3f}",
        "loop overhead, in plain steps": ", ".join(f"{a} {share:.3f}" for a, share in figures["overhead"].items()),
        "host reads a step": f"{figures['reads_per_step']:g}",
        "rollback / concat-and-trim": "{ours_us:.0f} / {mlx_lm_us:.0f} us = {ratio:.3f}".format(**figures["rollback"]),
        "answers unlike plain decoding's": ", ".join(f"{a} {n}" for a, n in figures["texts_that_differ"].items()),
    }
    return "\n".join([f"## {blas}", *(f"{name:36}{value}" for name, value in shown.items())])


def main() -> None:
    """Measure, print, write, check."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.decode", description="Measure the decoding loop.")
    parser.add_argument(
        "--model", default="", help="a folder with target and speculator; the embedded pair unless said"
    )
    parser.add_argument("--chats", type=int, default=8, help="held-out chats whose turns are answered")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats; medians are shown")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--check", action="store_true", help="fail, naming each figure that misses its goal")
    options = parser.parse_args()
    openblas, runs, surroundings = find_openblas(), dict[str, Figures | None](), machine()
    for blas, library in {"bundled": None, "openblas": openblas}.items():
        if blas == "openblas" and library is None:
            runs[blas] = None
            print(f"## openblas\n{ABSENT}")
            continue
        figures = measured(library, options.model, options.chats, options.repeats)
        runs[blas] = figures
        print(table(blas, figures), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": surroundings, "runs": runs}, indent=2) + "\n")
    lines = missed(runs) if options.check else []
    if lines:
        raise SystemExit("missed:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
