"""Plots of the benches, for the README: acceptance by depth, time by context, throughput by streams."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.goals import Figures
from tests.bench.running import Runs

SIZE = (7.0, 3.6)
"""Inches."""
BLAS = {"bundled": "MLX's own BLAS", "openblas": "OpenBLAS"}


def decoding(folder: Path, runs: Runs) -> None:
    """Write `acceptance_by_depth.png` and `time_by_context.png`."""
    known = {blas: figures for blas, figures in runs.items() if figures is not None}
    first = next(iter(known.values()))
    _written(folder / "acceptance_by_depth.png", first, _acceptance)
    best = known.get("openblas", first)
    _written(folder / "time_by_context.png", best, _time)


def serving(folder: Path, runs: Runs) -> None:
    """Write `throughput_by_streams.png`."""
    known = {blas: figures for blas, figures in runs.items() if figures is not None}
    _written(folder / "throughput_by_streams.png", known.get("openblas", next(iter(known.values()))), _throughput)


def _written(path: Path, figures: Figures, fill: Callable[[Axes, Figures], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    fill(axes, figures)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=100)


def _acceptance(axes: Axes, figures: Figures) -> None:
    for name, shown in {"greedy": "greedy", "temperature 0.7": "T = 0.7", "temperature 1.2": "T = 1.2"}.items():
        known = figures[name]["always"] if name == "greedy" else figures[name]
        shares = known["accepted_per_round_by_depth"]
        axes.plot(range(1, len(shares) + 1), shares, marker="o", label=shown)
    axes.set(
        xlabel="depth in the block", ylabel="share of rounds accepted so far", title="Embedded pair, held-out chats"
    )


def _time(axes: Axes, figures: Figures) -> None:
    costs = figures["calibration"]
    for rows in sorted({cost["rows"] for cost in costs}):
        points = [(cost["context"], cost["seconds"] * 1e3) for cost in costs if cost["rows"] == rows]
        axes.plot(*zip(*points, strict=True), marker="o", label="plain" if rows == 1 else f"{rows} rows")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="tokens of context", ylabel="milliseconds a round", title="Embedded pair, one request")


def _throughput(axes: Axes, figures: Figures) -> None:
    names = {"auto": "laguna, auto", "off": "laguna, off", "mlx_lm": "mlx_lm.server"}
    for arm, rates in figures["tokens_per_second"].items():
        axes.plot([int(streams) for streams in rates], list(rates.values()), marker="o", label=names[arm])
    axes.set(xlabel="streams", ylabel="tokens a second, all streams", title="Embedded target, held-out chats")
