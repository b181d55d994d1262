"""How far a generation has come, for the log and the metrics: counts and times, no text."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.decode.session import Stats
from server.errors import Refusal
from server.verdicts import verdict


@dataclass(frozen=True)
class Figures:
    """One generation so far, all its choices together. Times are monotonic seconds."""

    prompt: int
    cached: int
    completion: int
    rounds: int
    drafted: int
    accepted: int
    first: float | None
    """When the first token came, or None."""
    last: float | None
    """When the latest did."""
    whole: bool
    """Every choice came to its end."""
    failure: str | None
    """The code of the refusal that ended it, or None."""
    speculation_off: str | None
    """Why nothing was drafted, or None."""

    @property
    def seconds_per_token(self) -> float | None:
        """Between the first token and the latest; None where there were not two."""
        if self.first is None or self.last is None or self.completion < 2:
            return None
        return (self.last - self.first) / (self.completion - 1)

    @property
    def accepted_per_round(self) -> float | None:
        """Drafted tokens that were kept in a round of decoding; None before the first."""
        return self.accepted / self.rounds if self.rounds else None


class Course:
    """Written by a generation's only reader as news come."""

    def __init__(self, prompts: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """`prompts` are the tokens of each choice's prompt; choices that share one have it counted once."""
        self._prompts = prompts
        self._clock = clock
        self._completion = [0] * len(prompts)
        self._stats: dict[int, Stats] = {}
        self._open = len(prompts)
        self._first: float | None = None
        self._last: float | None = None
        self._failure: str | None = None

    def came(self, choice: int, tokens: int, stats: Stats) -> None:
        """A choice has so many tokens now."""
        now = self._clock()
        if tokens > self._completion[choice]:
            self._first = now if self._first is None else self._first
            self._last = now
        self._completion[choice] = tokens
        self._stats[choice] = stats

    def ended(self) -> None:
        """One more choice is whole."""
        self._open -= 1

    def failed(self, refusal: Refusal) -> None:
        """It ends here, for everybody."""
        row = verdict(refusal)
        self._failure = row.code or row.type

    @property
    def figures(self) -> Figures:
        """All of it, at this moment."""
        known = list(self._stats.values())
        off = [stats.speculation_off for stats in known]
        return Figures(
            prompt=sum(self._prompts),
            cached=self._cached(),
            completion=sum(self._completion),
            rounds=sum(stats.rounds for stats in known),
            drafted=sum(stats.drafted for stats in known),
            accepted=sum(stats.accepted for stats in known),
            first=self._first,
            last=self._last,
            whole=not self._open,
            failure=self._failure,
            speculation_off=None if None in off or not off else off[0],
        )

    def _cached(self) -> int:
        """As usage has it: of choices that share a prompt, the fewest, which is what the first found."""
        least: dict[int, int] = {}
        first = 0
        for choice, tokens in enumerate(self._prompts):
            first = choice if tokens else first
            if choice in self._stats:
                own = self._stats[choice].cached_tokens
                least[first] = min(least.get(first, own), own)
        return sum(least.values())
