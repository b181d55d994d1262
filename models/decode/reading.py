"""How many prompt rows a round brings beside sessions that decode: as many as their usual round pays for again.

Everything here is a value: scripted costs can drive it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from statistics import fmean
from typing import NamedTuple

SLOWDOWN, SLOWEST = 2.25, 4.0
"""A round that also reads prompts may take so many times what the others' rounds usually take: more, up to the second,
where more sessions wait for their prompts than decode."""
FEWEST, FIRST = 2, 16
"""Rows below which reading would hardly advance, and those tried first."""
MEASURED = 3
"""Rounds that tell what is usual, and so many with a number of rows before more are tried.

Means without the extremes: of rounds that are read late one seems to take the time of two, and the next none.
"""
REMEMBERED, TRIMMED = 9, 5
RENEWED = 48
"""Rounds with prompts after which one without shows what is usual by now."""
FORGOTTEN = 96
"""Rounds with prompts after which a number of rows that was not used may be tried as if it were new."""


class Others(NamedTuple):
    """What goes on beside a prompt; what is usual is known apart for each."""

    order: int
    """Binary digits of the number of sessions that decode."""
    drafting: bool
    """One of them at least has a block verified."""

    @classmethod
    def of(cls, decoding: int, *, drafting: bool) -> "Others":
        """So many sessions that decode."""
        return cls(decoding.bit_length(), drafting)


@dataclass(frozen=True)
class Reading:
    """What rounds with and without prompts took of late. Seconds throughout."""

    usual: Mapping[Others, tuple[float, ...]] = field(default_factory=dict)
    """Rounds without prompts."""
    extra: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """By prompt rows: what rounds took beyond the usual."""
    used: Mapping[int, int] = field(default_factory=dict)
    """By prompt rows: when they were last used, in rounds with prompts."""
    rounds: int = 0
    """With prompts, so far."""
    renewed: int = 0
    """How many they were when a round without prompts was last measured."""
    late: bool = True
    """The round before read a prompt, whose rows may have held up the next."""

    def rows(self, others: Others, most: int, crowd: float = 1.0) -> int:
        """Prompt rows, up to `most`, beside these; 0 where a round without has to tell more.

        `crowd` are the sessions that wait for their prompts, for each that decodes.
        """
        usual = self.usual.get(others, ())
        if not usual or self.rounds - self.renewed >= RENEWED:
            return 0
        if len(usual) < MEASURED:
            return min(FEWEST, most) if self.rounds == self.renewed else 0
        spare = _mean(usual) * min(SLOWEST - 1, (SLOWDOWN - 1) * max(1.0, crowd))
        known = {rows: _mean(self.extra[rows]) for rows in sorted(self.extra) if self._remembered(rows)}
        if not known:
            return min(FIRST, most)
        fitting = [rows for rows, seconds in known.items() if seconds <= spare]
        # More rows at once than twice what is known to fit may take any time.
        told = [rows for rows in fitting if len(self.extra[rows]) >= MEASURED]
        reach = max([2 * rows for rows in told] + fitting, default=min(known))
        sizes = [rows for rows in _sizes(most) if rows <= reach and _along(known, rows) <= spare]
        return sizes[-1] if sizes else min(FEWEST, most)

    def after(self, others: Others, rows: int, seconds: float) -> "Reading":
        """With one more round measured, which read so many prompt rows beside these."""
        own = self.usual.get(others, ())
        if not rows:
            usual = self.usual if self.late else {**self.usual, others: (*own, seconds)[-REMEMBERED:]}
            return replace(self, usual=usual, renewed=self.renewed if self.late else self.rounds, late=False)
        now = replace(self, rounds=self.rounds + 1, late=True)
        if not own or rows < FEWEST:
            return now
        before = self.extra.get(rows, ()) if self._remembered(rows) else ()
        extra = (*before, max(seconds - _mean(own), 0.0))[-REMEMBERED:]
        return replace(now, extra={**self.extra, rows: extra}, used={**self.used, rows: now.rounds})

    def usually(self) -> Mapping[Others, float]:
        """What rounds without prompts take, as far as that was measured often enough."""
        return {others: _mean(own) for others, own in sorted(self.usual.items()) if len(own) >= MEASURED}

    def beyond(self) -> Mapping[int, float]:
        """By prompt rows: what rounds take beyond the usual, as far as that was measured often enough."""
        return {rows: _mean(own) for rows, own in sorted(self.extra.items()) if len(own) >= MEASURED}

    @classmethod
    def of(cls, usually: Mapping[Others, float], beyond: Mapping[int, float]) -> "Reading":
        """A start from such measures, quick to change."""
        usual = {others: (seconds,) * MEASURED for others, seconds in usually.items()}
        return cls(usual, {rows: (seconds,) * MEASURED for rows, seconds in beyond.items()}, dict.fromkeys(beyond, 0))

    def _remembered(self, rows: int) -> bool:
        return self.rounds - self.used.get(rows, self.rounds) < FORGOTTEN


def portions(needs: Sequence[int], rows: int) -> list[int]:
    """How many of the `rows` each prompt gets that still `needs` so many, oldest first.

    The oldest gets half at least, the others what is left, the shortest first: a short prompt does not wait for a long
    one, and no prompt waits for ever.
    """
    if not needs:
        return []
    others = sum(needs[1:])
    given = [min(needs[0], rows - min(rows // 2, others)), *(0 for _ in needs[1:])]
    left = rows - given[0]
    for place in sorted(range(1, len(needs)), key=needs.__getitem__):
        given[place] = min(needs[place], left)
        left -= given[place]
    return given


def _sizes(most: int) -> list[int]:
    """The numbers of rows to choose from: half as many again and a third more in turn, so that they are met again."""
    doubled = takewhile(lambda rows: rows < most, (FEWEST << power for power in range(most.bit_length())))
    return sorted({size for rows in doubled for size in (rows, rows * 3 // 2) if size < most} | {most})


def _along(known: Mapping[int, float], rows: int) -> float:
    """Seconds that so many rows take: as measured, else in proportion to the nearest fewer, or more, that were."""
    if rows in known:
        return known[rows]
    nearest = max((few for few in known if few < rows), default=min(known))
    return known[nearest] * rows / nearest


def _mean(seconds: Sequence[float]) -> float:
    return fmean(sorted(seconds)[1:-1] if len(seconds) >= TRIMMED else seconds)
