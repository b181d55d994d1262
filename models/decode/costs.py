"""What a round costs on this machine: seconds by kind, number of rows and context, as measured while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Literal

Kind = Literal["plain", "given", "drafted"]
"""A round without drafts; one whose drafts are all known beforehand; one that the speculator drafts for."""

KINDS: tuple[Kind, ...] = ("plain", "given", "drafted")
"""In the order of what they contain: a round with one such block is at least of its kind."""
REMEMBERED = 31
"""Rounds of one kind, bucket and number of rows of which the median is taken."""
EASED = 0.8
"""Plain rounds that take less than this share of what they took say that the machine is faster now."""
NARROW = 1024
"""Tokens of context at which the second bucket begins."""

Points = Mapping[int, float]


def bucket(context: int) -> int:
    """0 for contexts of less than 1024 tokens (of all sessions together); one more with each doubling."""
    return (context // NARROW).bit_length()


@dataclass(frozen=True)
class Costs:
    """Medians of recent rounds: a round that someone else's work slowed down must count neither way."""

    usual: Mapping[tuple[Kind, int], Points] = field(default_factory=dict)
    """By kind and bucket: seconds by target rows."""
    recent: Mapping[tuple[Kind, int, int], tuple[float, ...]] = field(default_factory=dict)
    beside: Mapping[tuple[Kind, int, int], tuple[int, float]] = field(default_factory=dict)
    """For rounds with drafts: the rows of a plain round in their bucket, and what it took when they were measured."""

    def known(self, kind: Kind) -> bool:
        """Whether such a round was ever measured."""
        return any(measured == kind for measured, _ in self.usual)

    def at(self, place: int) -> "Prices":
        """What rounds cost in bucket `place`."""
        plain, given, drafted = (self._curve(kind, place) for kind in KINDS)
        return Prices(plain, _with_less(plain, given or drafted), _with_less(plain, drafted))

    def after(self, kind: Kind, rows: int, place: int, seconds: float) -> "Costs":
        """With one more round measured."""
        own = (*self.recent.get((kind, place, rows), ()), seconds)[-REMEMBERED:]
        points = {**self.usual.get((kind, place), {}), rows: median_low(own)}
        beside, plain = self.beside, self.usual.get(("plain", place))
        if kind != "plain" and plain:
            beside = {**beside, (kind, place, rows): min(plain.items())}
        return Costs({**self.usual, (kind, place): points}, {**self.recent, (kind, place, rows): own}, beside)

    def _eased(self, kind: Kind, place: int, rows: int, seconds: float) -> float:
        """What a round takes now if it was measured when the machine was slow, as plain rounds tell by now.

        Never more: what looks cheap is tried and measured, what looks dear would not be.
        """
        fewest, then = self.beside.get((kind, place, rows), (0, 0.0))
        now = self.usual.get(("plain", place), {}).get(fewest, then)
        return seconds * now / then if now < then * EASED else seconds

    def _curve(self, kind: Kind, place: int) -> Points:
        """What was measured here, and for other rows what was measured in the nearest bucket, below first.

        A context that grew makes that too little, so that it is soon tried; but it never costs less than fewer rows
        cost here. Plain decoding is never guessed from longer contexts, which would make it look slow.
        """
        here = {rows: self._eased(kind, place, rows, own) for rows, own in self.usual.get((kind, place), {}).items()}
        others = [p for k, p in self.usual if k == kind and (p < place or (p > place and kind != "plain"))]
        curve = dict(here)
        for other in sorted(others, key=lambda p: (p > place, abs(p - place))):
            for rows, own in self.usual[kind, other].items():
                cost = self._eased(kind, other, rows, own)
                if rows not in curve:
                    curve[rows] = max([cost, *(less for fewer, less in here.items() if fewer < rows)])
        return curve


class Prices:
    """What rounds cost in one bucket: plain rounds are known exactly or not at all, others along lines."""

    def __init__(self, plain: Points, given: Points, drafted: Points) -> None:
        self.plain, self.given, self.drafted = plain, given, drafted
        self._asked: dict[tuple[Kind, int], float | None] = {}

    def seconds(self, kind: Kind, rows: int) -> float | None:
        """The estimate, None when nothing comparable was measured."""
        if (kind, rows) not in self._asked:
            self._asked[kind, rows] = self._seconds(kind, rows)
        return self._asked[kind, rows]

    def _seconds(self, kind: Kind, rows: int) -> float | None:
        if kind == "plain":
            return self.plain.get(rows)
        points = self.drafted if kind == "drafted" else self.given
        return along(points, rows) if points else None


def _with_less(plain: Points, curve: Points) -> Points:
    """A curve that starts with the plain rounds of fewer rows, if it starts at all."""
    return {**{rows: cost for rows, cost in plain.items() if rows < min(curve)}, **curve} if curve else {}


def along(points: Points, rows: int) -> float:
    """Piecewise linear through the points; beyond them, the nearest segment goes on, never falling with more rows."""
    if rows in points:
        return points[rows]
    known = sorted(points)
    if len(known) == 1:
        return points[known[0]] * max(rows / known[0], 1)
    right = next((i for i, r in enumerate(known) if r > rows), len(known) - 1)
    low, high = known[max(right - 1, 0)], known[max(right, 1)]
    slope = (points[high] - points[low]) / (high - low)
    if low < rows < high:
        return points[low] + slope * (rows - low)
    nearest = low if abs(rows - low) < abs(rows - high) else high
    return points[nearest] + max(slope, 0.0) * (rows - nearest)
