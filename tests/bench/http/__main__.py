"""Measure the server over HTTP: `python -m tests.bench.http [--json FILE] [--check]`.

Ours, plain and speculating, against mlx-lm's server on the same checkpoint with the same BLAS, each in a process of
its own and all of them asked in turn.
"""

import argparse
import tempfile
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench import plots
from tests.bench.asks import asks
from tests.bench.checkpoint import copied
from tests.bench.goals import Figures, judged
from tests.bench.http.goals import GOALS, STREAMS
from tests.bench.http.long import long_answers
from tests.bench.http.summary import rates
from tests.bench.http.waves import Wave, wave
from tests.bench.running import parser, run
from tests.bench.servers import Server, mlx_lm, ours, serving

REQUESTS = 32
"""Requests of a wave, however many streams ask them."""


def race(servers: list[Server], repeats: int) -> list[dict[int, dict[str, Wave]]]:
    """Waves by repeat, number of streams and server; all get the same requests, none of which was asked before."""
    fresh, found = asks(), list[dict[int, dict[str, Wave]]]()
    for server in servers:
        wave(server, list(islice(asks(10_000), 6)), 1)
    for repeat in range(repeats):
        waves: dict[int, dict[str, Wave]] = {}
        for place, streams in enumerate(STREAMS):
            bodies = list(islice(fresh, REQUESTS))
            turned = servers if (repeat + place) % 2 == 0 else servers[::-1]
            waves[streams] = {server.command.name: wave(server, bodies, streams) for server in turned}
        found.append(waves)
    return found


def measured(library: Path | None, options: argparse.Namespace) -> Figures:
    """Everything with one BLAS."""
    with tempfile.TemporaryDirectory() as folder:
        usual = copied(Path(folder))
        with (
            serving(ours("off", usual, "--speculation", "off"), library) as plain,
            serving(ours("auto", usual), library) as auto,
            serving(mlx_lm(usual), library) as theirs,
        ):
            figures = rates(race([plain, auto, theirs], options.repeats))
        endless = copied(Path(folder), "laguna-endless", context=16384, endless=True)
        return figures | long_answers(endless, library, options.repeats)


def table(figures: Figures) -> Mapping[str, str]:
    """One run as text."""
    shown: dict[str, str] = {}
    for streams in map(str, STREAMS):
        speeds = ", ".join(f"{arm} {by[streams]:.0f}" for arm, by in figures["tokens_per_second"].items())
        shown[f"tokens a second, {streams} streams"] = speeds
        shown[f"  over mlx_lm.server, {streams} streams"] = _pairs(figures["over_mlx_lm"], streams)
    for streams in ("4", "8"):
        shown[f"aggregate over one stream, {streams} streams"] = _pairs(figures["aggregate"], streams)
        shown[f"  of long answers, {streams} streams"] = _pairs(figures["long_aggregate"], streams)
        shown[f"slowest / fastest of {streams} equal streams"] = f"{figures['evenness'][streams]:.2f}"
    shown["seconds a token over the bare loop"] = ", ".join(f"{a} {v:.3f}" for a, v in figures["over_bare"].items())
    beside = figures["beside"]
    shown["3k prompt: role chunk"] = f"{beside['role'] * 1e3:.0f} ms"
    shown["3k prompt: others' longest / usual gap"] = (
        f"{beside['longest'] * 1e3:.1f} / {beside['usual'] * 1e3:.1f} ms = {beside['gap_ratio']:.1f}"
    )
    return shown | {"errors": str(len(figures["errors"])), "other texts": str(figures["texts_that_differ"])}


def _pairs(by_arm: Mapping[str, Mapping[str, Any]], streams: str) -> str:
    return ", ".join(f"{arm} {values[streams]:.2f}" for arm, values in by_arm.items())


def main() -> None:
    """Measure, print, write, check."""
    options = parser("http", "Measure the server over HTTP.", repeats=5)
    options.add_argument("--plots", type=Path, help="draw throughput by streams into this folder")
    chosen = options.parse_args()
    draw = None if chosen.plots is None else partial(plots.serving, chosen.plots)
    run(chosen, measured, table, lambda runs: judged(runs, GOALS), draw)


if __name__ == "__main__":
    main()
