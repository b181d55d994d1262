"""How often drafts agree: by depth, and apart for each source and each phase of an answer."""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Literal, NamedTuple

Phase = Literal["thinking", "answer", "arguments"]
Source = Literal["speculator", "prediction", "copy", "grammar"]

PRIOR = 0.7
RECENT, LASTING = 0.04, 0.01
IDLE = 0.01
STALE = 0.03
FADING = 0.85
ALARM = 2.5
DEEPEST = 64


class Subject(NamedTuple):
    """What an estimate is about."""

    source: Source
    phase: Phase
    trusted: bool = False
    """The source has foretold a run of ids by now; a speculator is never asked for that."""


class Depth(NamedTuple):
    """How often the draft at one depth agrees, given that all before it in its block did."""

    rate: float = PRIOR
    """Of late."""
    seen: float = 0.0
    """How many blocks that rests on."""
    usual: float = PRIOR
    """In the long run."""
    tried: float = 0.0

    def after(self, agreed: bool) -> "Depth":
        """With one more draft judged."""
        rate = self.rate + (agreed - self.rate) * max(RECENT, 1 / (self.seen + 2))
        usual = self.usual + (agreed - self.usual) * max(LASTING, 1 / (self.tried + 2))
        return Depth(rate, self.seen + 1, usual, self.tried + 1)

    def towards(self, rate: float, share: float) -> "Depth":
        """Not judged for a while: believed less, and moved towards what is likelier by now."""
        return self._replace(rate=self.rate + (rate - self.rate) * share, seen=self.seen * (1 - share))


@dataclass(frozen=True)
class Acceptance:
    """An estimate for every depth.

    Recent blocks weigh most, and alone when they say something else than the ones before: a drafter that was bad at
    thinking may be good at the code that follows.
    """

    depths: tuple[Depth, ...] = ()
    surprise: float = 0.0
    """By how much more drafts agreed of late than was expected, and the variance of that."""
    variance: float = 0.0

    @classmethod
    def of(cls, rates: Iterable[float], seen: float = 0.0) -> "Acceptance":
        """Known rates, worth so many blocks."""
        return cls(tuple(Depth(rate, seen, rate, seen) for rate in rates))

    @property
    def rates(self) -> tuple[float, ...]:
        """The estimates for the depths seen."""
        return tuple(depth.rate for depth in self.depths)

    def expected(self, rows: int) -> float:
        """Tokens that a block of up to 64 rows is expected to commit, the target's own included."""
        return self._expected[rows - 1]

    @cached_property
    def _expected(self) -> tuple[float, ...]:
        # Unseen depths are like the deepest seen.
        deeper = repeat(self.rates[-1] if self.depths else PRIOR, DEEPEST - 1 - len(self.depths))
        return tuple(accumulate(accumulate(chain(self.rates, deeper), operator.mul, initial=1.0)))

    def after(self, drafted: int, agreed: int) -> "Acceptance":
        """The estimate after a block of `drafted` drafts of which the first `agreed` agreed."""
        depths, tested = list(self.depths), min(agreed + 1, drafted)
        while len(depths) < tested:
            depths.append(Depth() if not depths else depths[-1]._replace(seen=0.0, tried=0.0))
        judged = depths[:tested]
        surprise = self.surprise * FADING + agreed - sum(depth.rate for depth in judged)
        variance = self.variance * FADING + sum(depth.rate * (1 - depth.rate) for depth in judged)
        if surprise**2 > ALARM**2 * (variance + 0.5):
            surprise, variance = 0.0, 0.0
            depths = [depth._replace(seen=min(depth.seen, 1.0)) for depth in depths]
        for place in range(tested):
            depths[place] = depths[place].after(place < agreed)
        for place in range(max(drafted, 1), len(depths)):
            # What is not tried any more is believed less and less, or one unlucky run would rule it out for good.
            depths[place] = depths[place].towards(depths[place - 1].rate, STALE)
        return Acceptance(tuple(depths), surprise, variance)

    def idle(self) -> "Acceptance":
        """The estimate after a round in which nothing was drafted: what was last seen may have passed."""
        return replace(self, depths=tuple(depth.towards(depth.usual, IDLE) for depth in self.depths))

    def handed_on(self, worth: float = 4) -> "Acceptance":
        """The estimate as a start for something else: the same, but quicker to change."""
        depths = [d._replace(seen=min(d.seen, worth), tried=min(d.tried, 4 * worth)) for d in self.depths]
        return Acceptance(tuple(depths))


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


def _alike(one: Subject, other: Subject) -> bool:
    return (one.source, one.trusted) == (other.source, other.trusted)
