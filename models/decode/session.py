"""One request's timeline: what was asked, what was fed to the target, what came out of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import mlx.core as mx
import numpy as np

from models.contract import LayerCache
from models.decode.acceptance import Record, Source, Subject
from models.decode.drafts import Guesses
from models.decode.prefix import Fetch
from models.decode.processors import Past
from models.decode.request import EmptyPrompt, InvalidRequest, Request, Sampling, Speculation
from models.decode.trie import Ids
from models.slack import NEAR

__all__ = [
    "EmptyPrompt",
    "Finish",
    "InvalidRequest",
    "Request",
    "Sampling",
    "Session",
    "Speculation",
    "Stats",
    "Tally",
    "Tapped",
]

Finish = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True)
class Stats:
    """A frozen snapshot of what a session cost and what speculation did for it. Times are wall seconds."""

    prompt_tokens: int
    completion_tokens: int
    rounds: int
    """Target passes after the one that ended the prompt."""
    drafted: int
    accepted: int
    """Drafted ids that were emitted."""
    prefill_seconds: float
    decode_seconds: float
    cached_tokens: int
    """Prompt tokens that were resumed from an earlier timeline instead of being read."""
    speculation_off: str | None
    """Why nothing was drafted, or None when something was."""
    drafted_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()
    parted_at: int | None = None
    """So many tokens of the prompt agree with what was kept, where something else followed; None where nothing did."""
    by_source: tuple[tuple[Source, int, int], ...] = ()
    """Drafted and accepted ids of each source that drafted any."""
    predicted: tuple[int, int] = (0, 0)
    """Ids of the request's prediction that came where the answer followed it, and those that did not."""


@dataclass(frozen=True)
class Tapped:
    """Rows `start..stop` of one pass's taps ([T, hidden] each): committed, but not yet in the speculator's context."""

    taps: tuple[mx.array, ...]
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self.stop - self.start


@dataclass
class Tally:
    """What is counted while a session runs."""

    rounds: int = 0
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    by_source: dict[Source, tuple[int, int]] = field(default_factory=dict)
    started: float | None = None
    answered: float | None = None
    latest: float = 0.0

    def block(self, source: Source, drafted: int, accepted: int) -> None:
        """Count one block's drafts, by source and depth by depth."""
        before = self.by_source.get(source, (0, 0))
        self.by_source[source] = before[0] + drafted, before[1] + accepted
        missing = drafted - len(self.drafted)
        self.drafted += [0] * missing
        self.accepted += [0] * missing
        for depth in range(drafted):
            self.drafted[depth] += 1
            self.accepted[depth] += depth < accepted


class Session:
    """One request being decoded. Only its batch changes it."""

    def __init__(
        self, request: Request, *, record: Record, speculation_off: str | None, past: Past | None = None
    ) -> None:
        self.request = request
        self._past = past
        self.constraint = None if request.grammar is None else request.grammar.start()
        self.finish: Finish | None = None
        self.emitted: list[int] = []
        self.fed = 0
        """Tokens of the timeline (prompt, then emitted) that were sent to the target and not taken back."""
        self.caches: Sequence[LayerCache] = ()
        self.context: Sequence[LayerCache] = ()
        self.pending: list[Tapped] = []
        self.marks: tuple[int, ...] = ()
        """Places still to come at which the caches are to be kept, in order."""
        self.fetch: Fetch | None = None
        """What it could resume from, on its way from disk."""
        self.cached = 0
        self.parted_at: int | None = None
        self.reread = False
        """It had caches and was parked: what it resumes from now is no news of its prompt."""
        self.record = record
        self.judged = Counter[Subject]()
        self.guesses = Guesses(request.prediction, request.phase, dict(request.phases))
        self.speculates = speculation_off is None
        self.plain_because = speculation_off
        self.tally = Tally()
        self.failures = 0
        self.alone_until = 0
        """It shares no pass before this many ids are emitted (set when a shared pass failed)."""

    @property
    def stats(self) -> Stats:
        """What was counted so far."""
        tally, drafted = self.tally, sum(self.tally.drafted)
        answered = tally.latest if tally.answered is None else tally.answered
        return Stats(
            prompt_tokens=len(self.request.prompt),
            completion_tokens=len(self.emitted),
            rounds=tally.rounds,
            drafted=drafted,
            accepted=sum(tally.accepted),
            prefill_seconds=answered - tally.started if tally.started is not None else 0.0,
            decode_seconds=tally.latest - answered,
            cached_tokens=self.cached,
            speculation_off=None if drafted else self.plain_because or "the answer ended before anything was drafted",
            drafted_by_depth=tuple(tally.drafted),
            accepted_by_depth=tuple(tally.accepted),
            parted_at=self.parted_at,
            by_source=tuple((source, *counts) for source, counts in tally.by_source.items()),
            predicted=self.guesses.predicted(),
        )

    @cached_property
    def prompt_ids(self) -> Ids:
        """The prompt, for comparisons."""
        return np.asarray(self.request.prompt, np.int32)

    @property
    def length(self) -> int:
        """Known tokens: the prompt's and the emitted."""
        return len(self.request.prompt) + len(self.emitted)

    @property
    def waiting_rows(self) -> int:
        """Committed rows that the speculator's context has not taken up."""
        return sum(tapped.rows for tapped in self.pending)

    def budget(self, unread: bool) -> int:
        """How many more ids it may be given; `unread` says that one is drawn already."""
        return self.request.max_tokens - len(self.emitted) - unread

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """The known tokens at the positions `start..stop`."""
        prompt = self.request.prompt
        answer = self.emitted[max(0, start - len(prompt)) : max(0, stop - len(prompt))]
        return (*prompt[start:stop], *answer)

    def past(self) -> Past | None:
        """What its processors look back on, every known token taken in; None without processors."""
        if self._past is not None:
            self._past = self._past.after(self.tokens(self._past.length, self.length))
        return self._past

    def open(self, caches: Sequence[LayerCache], context: Sequence[LayerCache]) -> None:
        """Start over with empty caches; the text stays, since a draw depends on seed and position alone."""
        self.caches, self.context = caches, context
        self.pending, self.fed = [], 0
        self.cached = self.cached if self.reread else 0

    def park(self) -> None:
        """Let caches go until it is opened again; the text stays, and what was counted of the first reading."""
        self.reread = self.reread or bool(self.caches)
        self.fetch, self.marks = None, ()
        self.open((), ())

    @property
    def to_mark(self) -> int:
        """Tokens up to the next mark that a prompt chunk must end at, or more than there are."""
        return next((mark - self.fed for mark in self.marks if self.fed < mark <= self.length - NEAR), self.length + 1)

    def settle(self, unread: int = 0) -> None:
        """Go back to the last place that caches and context have both reached with known tokens but the last `unread`.

        Raises:
            CacheError: a cache no longer holds what that needs.
        """
        reached = min(self.fed, self.length - unread)
        taken = self.context[0].offset + self.waiting_rows if self.context else reached
        self.take_back(min(reached, taken))
        excess = taken - self.fed
        while excess > 0 and self.pending:
            last = self.pending.pop()
            if last.rows > excess:
                self.pending.append(Tapped(last.taps, last.start, last.stop - excess))
            excess -= min(excess, last.rows)
        for cache in self.context if excess else ():
            cache.rollback(excess)

    def take_back(self, position: int) -> None:
        """Make the target forget everything from `position` on.

        Raises:
            CacheError: a cache no longer holds what that needs.
        """
        excess = self.fed - position
        if excess:
            for cache in self.caches:
                cache.rollback(excess)
            self.fed = position

    def close(self, finish: Finish) -> None:
        """End here: caches, context and waiting rows are let go."""
        self.finish = finish
        self.caches, self.context, self.pending = (), (), []
