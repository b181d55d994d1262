"""Measure the decoding loop: `python -m tests.bench.decode [--model PATH] [--json FILE] [--check]`.

One run measures twice, each time in a process of its own: with the BLAS that comes with MLX, and with OpenBLAS.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.bench import growth, plots
from tests.bench.blas import environment
from tests.bench.goals import Figures, missed
from tests.bench.running import parser, run


def measured(library: Path | None, options: argparse.Namespace) -> Figures:
    """The figures of a child process that uses this BLAS."""
    command = [sys.executable, "-m", "tests.bench.measure", options.model, str(options.chats), str(options.repeats)]
    command.append(str(int(library is None)))
    child = subprocess.run(command, env=environment(library), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(child.stdout)


def table(figures: Figures) -> Mapping[str, str]:
    """One run as text."""
    rates, ratios, always = figures["tokens_per_second"], figures["ratios"], figures["greedy"]["always"]
    return {
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
        **_long_and_hot(figures),
        "answers unlike plain decoding's": ", ".join(f"{a} {n}" for a, n in figures["texts_that_differ"].items()),
    }


def _long_and_hot(figures: Figures) -> Mapping[str, str]:
    """What is measured past the window, at long contexts and hot."""
    lossless = figures["lossless"]
    shown = {
        **{
            f"hot drafts accepted at {temperature}, {task}": "{loop:.2f}, always coupled {always:.2f}, likeliest"
            " {likeliest:.2f}: {ratio:.3f}, always {always_ratio:.3f}; {unlikely:.2%} not the likeliest".format(**found)
            for temperature, tasks in figures["coupled"].items()
            for task, found in tasks.items()
        },
        **growth.table(figures),
    }
    if lossless is not None:
        said = ", ".join(
            f"{name} {share if isinstance(share, str) else f'{share:.3f}'}" for name, share in lossless.items()
        )
        shown["tokens like plain greedy ones"] = said
    return shown


def main() -> None:
    """Measure, print, write, check."""
    options = parser("decode", "Measure the decoding loop.", repeats=5)
    options.add_argument(
        "--model", default="", help="a folder with target and speculator; the embedded pair unless said"
    )
    options.add_argument("--chats", type=int, default=8, help="held-out chats whose turns are answered")
    options.add_argument("--plots", type=Path, help="draw acceptance by depth and time by context into this folder")
    chosen = options.parse_args()
    draw = None if chosen.plots is None else partial(plots.decoding, chosen.plots)
    run(chosen, measured, table, missed, draw)


if __name__ == "__main__":
    main()
