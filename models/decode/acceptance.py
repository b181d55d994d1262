"""How often drafts agree: by depth, and apart for each source and each phase of an answer."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Literal, NamedTuple

Phase = Literal["thinking", "answer", "arguments"]
Source = Literal["speculator", "prediction", "copy", "grammar"]
Writer = Source | Literal["target"]
TARGET: Literal["target"] = "target"

PRIOR = 0.7
"""How often a draft agrees where nothing was seen."""
RECENT, LASTING = 0.04, 0.01
"""The least weight of a new block in the rates of late, and in the usual ones."""
IDLE = 0.01
"""How far a round without drafts brings the rates of late back to the usual ones."""
STALE = 0.03
"""How far a block that does not try a depth brings its rate to that of the depth before."""
FADING = 0.85
"""What surprise of earlier blocks still counts after one more."""
ALARM = 2.5
"""Standard deviations of surprise after which what was seen of late counts for one block at most."""
DEEPEST = 64
"""Rows of the widest block that is reckoned with."""


class Subject(NamedTuple):
    """What an estimate is about."""

    source: Source
    phase: Phase
    trusted: bool = False
    """The source has foretold a run of ids by now; a speculator is never asked for that."""


@dataclass(frozen=True)
class Acceptance:
    """By depth: how often a draft agrees, given that all before it in its block did.

    Recent blocks weigh most, and alone when they say something else than the ones before: a drafter that was bad at
    thinking may be good at the code that follows.
    """

    rates: tuple[float, ...] = ()
    """Of late."""
    seen: tuple[float, ...] = ()
    """How many blocks each of them rests on."""
    usual: tuple[float, ...] = ()
    """In the long run."""
    tried: tuple[float, ...] = ()
    surprise: float = 0.0
    """By how much more drafts agreed of late than was expected, and the variance of that."""
    variance: float = 0.0

    @classmethod
    def of(cls, rates: Iterable[float], seen: float = 0.0) -> "Acceptance":
        """Known rates, worth so many blocks."""
        known = tuple(rates)
        return cls(known, (seen,) * len(known), known, (seen,) * len(known))

    def expected(self, rows: int) -> float:
        """Tokens that a block of up to 64 rows is expected to commit, the target's own included."""
        return self._expected[rows - 1]

    @cached_property
    def _expected(self) -> tuple[float, ...]:
        # Unseen depths are like the deepest seen.
        deeper = repeat(self.rates[-1] if self.rates else PRIOR, DEEPEST - 1 - len(self.rates))
        return tuple(accumulate(accumulate(chain(self.rates, deeper), operator.mul, initial=1.0)))

    def after(self, drafted: int, agreed: int) -> "Acceptance":
        """The estimate after a block of `drafted` drafts of which the first `agreed` agreed."""
        rates, seen, usual, tried = list(self.rates), list(self.seen), list(self.usual), list(self.tried)
        tested = min(agreed + 1, drafted)
        missing = tested - len(rates)
        if missing > 0:
            rates += [rates[-1] if rates else PRIOR] * missing
            usual += [usual[-1] if usual else PRIOR] * missing
            seen += [0.0] * missing
            tried += [0.0] * missing
        judged = rates[:tested]
        surprise = self.surprise * FADING + agreed - sum(judged)
        variance = self.variance * FADING + sum([rate * (1 - rate) for rate in judged])
        if surprise**2 > ALARM**2 * (variance + 0.5):
            surprise, variance, seen = 0.0, 0.0, [min(count, 1.0) for count in seen]
        came = [1.0] * agreed + [0.0] * (tested - agreed)
        rates[:tested] = _moved(rates, came, seen, RECENT)
        usual[:tested] = _moved(usual, came, tried, LASTING)
        seen[:tested] = [count + 1 for count in seen[:tested]]
        tried[:tested] = [count + 1 for count in tried[:tested]]
        for depth in range(max(drafted, 1), len(rates)):
            # What is not tried any more is believed less and less, or one unlucky run would rule it out for good.
            rates[depth] += (rates[depth - 1] - rates[depth]) * STALE
            seen[depth] *= 1 - STALE
        return Acceptance(tuple(rates), tuple(seen), tuple(usual), tuple(tried), surprise, variance)

    def idle(self) -> "Acceptance":
        """The estimate after a round in which nothing was drafted: what was last seen may have passed."""
        rates = tuple([rate + (usual - rate) * IDLE for rate, usual in zip(self.rates, self.usual, strict=True)])
        return replace(self, rates=rates, seen=tuple([count * (1 - IDLE) for count in self.seen]))

    def handed_on(self, worth: float = 4) -> "Acceptance":
        """The estimate as a start for something else: the same, but quicker to change."""
        seen = tuple(min(count, worth) for count in self.seen)
        tried = tuple(min(count, 4 * worth) for count in self.tried)
        return Acceptance(self.rates, seen, self.usual, tried)


@dataclass(frozen=True)
class Record:
    """What was seen of every subject so far."""

    known: Mapping[Subject, Acceptance] = field(default_factory=dict)

    def of(self, subject: Subject) -> Acceptance:
        """The estimate; a subject never seen starts like its source in another phase, else like any drafter."""
        own = self.known.get(subject)
        if own is not None:
            return own
        near = (found for other, found in self.known.items() if _alike(other, subject))
        return next(near, Acceptance()).handed_on(1)

    def after(self, subject: Subject, drafted: int, agreed: int) -> "Record":
        """The record after a block of `drafted` drafts of which the first `agreed` agreed."""
        return Record({**self.known, subject: self.of(subject).after(drafted, agreed)})

    def idle(self, subject: Subject) -> "Record":
        """The record after a round in which this subject could have drafted and did not."""
        own = self.known.get(subject)
        return self if own is None else Record({**self.known, subject: own.idle()})

    def handed_on(self) -> "Record":
        """The record as a start for another request."""
        return Record({subject: found.handed_on() for subject, found in self.known.items()})


def _moved(rates: Sequence[float], came: Sequence[float], seen: Sequence[float], least: float) -> list[float]:
    """Rates after what `came`, which weighs as one of the blocks seen and two more, and at `least` so much."""
    many = 1 / least - 2
    return [
        rate + (one - rate) * (least if count >= many else 1 / (count + 2))
        for rate, one, count in zip(rates, came, seen, strict=False)
    ]


def _alike(one: Subject, other: Subject) -> bool:
    return (one.source, one.trusted) == (other.source, other.trusted)
