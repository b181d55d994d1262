"""What the decoding loop is to reach, as a table over the figures of one run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
OURS = ("auto", "always")
MORE = 1.001
"""More than as much, as figures are told: a tie is none."""


@dataclass(frozen=True)
class Goal:
    """One figure and its bound."""

    name: str
    of: Callable[[Figures], float]
    bound: float
    at_least: bool
    only: str | None = None
    """The one BLAS it is about; None: all."""

    def missed(self, figures: Figures) -> str | None:
        """What to say when these figures miss it."""
        value = self.of(figures)
        if (value >= self.bound) if self.at_least else (value <= self.bound):
            return None
        return f"{self.name} is {value:.3f}, to reach {'at least' if self.at_least else 'at most'} {self.bound}"


Runs = Mapping[str, Figures | None]
"""Figures by BLAS, "bundled" and "openblas"; None where that one is not installed."""

LONG_CONTEXT = (
    Goal("cache bytes over theory, at most", lambda f: f["memory"]["ours"]["peak"], 1.15, at_least=False),
    Goal("cache bytes of a further token", lambda f: f["memory"]["ours"]["peak_per_token"], 1.15, at_least=False),
    Goal(
        "one row at 8k tokens, against mlx-lm's",
        lambda f: f["growth"]["ours_plain"]["long_ms"] / f["growth"]["mlx_lm_plain"]["long_ms"],
        1.0,
        at_least=False,
    ),
)
GOALS = (
    Goal("plain decoding against mlx-lm", lambda f: f["ratios"]["off_to_mlx_lm"], 0.97, at_least=True),
    Goal("auto against plain decoding", lambda f: f["ratios"]["auto_to_off"], 0.95, at_least=True),
    Goal(
        "the better of auto and always against plain decoding",
        lambda f: max(f["ratios"]["auto_to_off"], f["ratios"]["always_to_off"]),
        2.4,
        at_least=True,
        only="openblas",
    ),
    Goal("loop overhead of a plain round, in plain steps", lambda f: f["overhead"]["off"], 0.1, at_least=False),
    Goal("loop overhead of a block round, in plain steps", lambda f: f["overhead"]["always"], 0.1, at_least=False),
    Goal("host reads a step", lambda f: f["reads_per_step"], 1.0, at_least=False),
    Goal("rollback against concat-and-trim", lambda f: f["rollback"]["ratio"], 0.1, at_least=False),
    *(
        Goal(
            f"drafts coupled where it pays against likeliest ones at {temperature}",
            lambda f, temperature=temperature: f["coupled"][temperature]["all"]["ratio"],
            MORE,
            at_least=True,
        )
        for temperature in ("0.7", "1.0")
    ),
    Goal("tokens like plain greedy ones", lambda f: f["lossless"]["ours"], 1.0, at_least=True, only="bundled"),
)
BESIDE_PEER = (
    Goal(
        "16 rows at 8k over 512 tokens, against mlx-vlm's",
        lambda f: f["growth"]["ours"]["ratio"] / f["growth"]["mlx_vlm"]["ratio"],
        1.0,
        at_least=False,
    ),
    Goal(
        "16 rows at 8k tokens, against mlx-vlm's",
        lambda f: f["growth"]["ours"]["long_ms"] / f["growth"]["mlx_vlm"]["long_ms"],
        1.0,
        at_least=False,
    ),
)
"""Where mlx-vlm is installed."""


def judged(runs: Mapping[str, Figures | None], goals: Iterable[Goal]) -> list[str]:
    """Every goal that a run misses; a run that could not be made misses, too."""
    found = []
    for blas, figures in runs.items():
        if figures is None:
            found.append(f"{blas}: not measured, the library was not found")
            continue
        told = [goal.missed(figures) for goal in goals if goal.only in (None, blas)]
        found += [f"{blas}: {line}" for line in told if line is not None]
    return found


def long_contexts(runs: Runs) -> list[str]:
    """The goals of long contexts that a run misses."""
    beside = {blas: figures for blas, figures in runs.items() if figures is not None and "mlx_vlm" in figures["growth"]}
    found = {blas: figures for blas, figures in runs.items() if figures is not None}
    return judged(found, LONG_CONTEXT) + judged(beside, BESIDE_PEER)


def missed(runs: Runs, goals: Iterable[Goal] = GOALS) -> list[str]:
    """The goals of the decoding loop that a run misses, its texts included."""
    differ = (runs.get("bundled") or {}).get("texts_that_differ", {})
    return (
        judged(runs, goals)
        + long_contexts(runs)
        + [f"bundled: {arm} wrote {differ[arm]} other texts than plain decoding" for arm in OURS if differ.get(arm)]
    )
