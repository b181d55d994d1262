"""Plots of what the bench found, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (7.0, 4.0)
"""Inches."""


class PlotsUnavailable(RuntimeError):
    """matplotlib is not installed."""


def plotter() -> type[Figure]:
    """matplotlib's figure, drawn without a display.

    Raises:
        PlotsUnavailable: it is not installed; the message says how to get it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotsUnavailable("plots need matplotlib: pip install 'laguna-server[bench]'") from error
    return Figure


def draw(facts: dict[str, Any], folder: Path) -> list[Path]:
    """Write acceptance by depth, and time by context and rows, as PNG files; returns where.

    Args:
        facts: what `server.bench.report.summary` returns.
        folder: made where it does not exist.

    Raises:
        PlotsUnavailable: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = [("time_by_context", _time)]
    if any(known["blocks"] for known in facts["acceptance"]["by_kind"].values()):
        made.append(("acceptance_by_depth", _acceptance))
    return [_written(folder / f"{name}.png", facts, fill) for name, fill in made]


def _written(path: Path, facts: dict[str, Any], fill: Callable[[Axes, dict[str, Any]], None]) -> Path:
    figure = plotter()(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    fill(axes, facts)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    return path


def _time(axes: Axes, facts: dict[str, Any]) -> None:
    costs = facts["calibration"]
    for rows in sorted({cost["rows"] for cost in costs}):
        points = [(cost["context"], cost["seconds"] * 1e3) for cost in costs if cost["rows"] == rows]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{rows} rows" if rows > 1 else "plain")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="tokens of context", ylabel="milliseconds a round", title=facts["model"])


def _acceptance(axes: Axes, facts: dict[str, Any]) -> None:
    """The share of blocks that got at least so deep."""
    for kind, known in facts["acceptance"]["by_kind"].items():
        reached, share = [], 1.0
        for rate in known["rates"]:
            share *= rate
            reached.append(share)
        if reached:
            axes.plot(range(1, len(reached) + 1), reached, marker="o", label=kind)
    axes.set_ylim(0, 1)
    axes.set(xlabel="depth in the block", ylabel="share of blocks accepted so far", title=facts["model"])
