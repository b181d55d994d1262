"""What memory holds: how much is kept of earlier prompts, how long a conversation may be, and how many run at once."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from models.decode.request import Request
from server.settings import Settings

log = logging.getLogger(__name__)

GIB = 2**30

EXPECTED = 4096
"""Tokens of an answer that room is kept for at a time; few answers use up a larger budget."""

LEAST = 4096
"""A conversation of so many tokens has room whatever is kept of earlier ones."""


class Spare(Protocol):
    """What a pair leaves of memory, and what of that its conversations take."""

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        ...

    @property
    def left(self) -> int:
        """Bytes of memory for conversations and what is kept of them."""
        ...

    def session_bytes(self, tokens: int) -> int:
        """The most that the caches of one conversation of so many tokens take, alone."""
        ...

    def beside_bytes(self, tokens: int) -> int:
        """The same of one among several."""
        ...


@dataclass(frozen=True)
class Room:
    """Bytes for the caches of running requests, and what one of several takes by its tokens."""

    size: int
    session_bytes: Callable[[int], int]
    kept: int = 0
    """Further bytes, for what is kept of earlier prompts; answers that outgrow the others' may have them."""
    step: int = EXPECTED
    """Tokens by which room is made for a growing answer."""

    def longest(self, context_length: int, alone: Callable[[int], int]) -> int:
        """Tokens of the longest conversation that fits, up to `context_length`; `alone` is what one then takes."""
        return bisect_right(range(1, context_length + 1), self.size, key=alone)

    def need(self, request: Request, emitted: int = 0) -> int:
        """Bytes for a request until its answer, of which so many tokens are there, has reached the next step."""
        answer = min(request.max_tokens, (emitted // self.step + 1) * self.step)
        return self.session_bytes(len(request.prompt) + answer)

    def fits(self, running: Sequence[int], more: int) -> bool:
        """Whether a request may join those that run, by their needs; alone it may: what is too long was refused."""
        return not running or sum(running) + more <= self.size

    def seats(self, needs: Sequence[int]) -> int:
        """How many of the requests that were taken up, oldest first, may run now; the oldest always may."""
        together = sum(total <= self.size + self.kept for total in accumulate(needs))
        return max(together, min(1, len(needs)))

    def keeps(self, needs: Sequence[int]) -> int:
        """Bytes for what is kept of earlier prompts beside those that run."""
        return max(0, min(self.kept, self.size + self.kept - sum(needs)))


def kept_bytes(pair: Spare, settings: Settings) -> int:
    """How much may be kept of earlier prompts: what was said, as far as it is there, or a quarter of what is left."""
    most = max(0, pair.left - pair.session_bytes(min(LEAST, pair.context_length)))
    if settings.prefix_cache_gib is None:
        return min(most, pair.left // 4)
    asked = round(settings.prefix_cache_gib * GIB)
    if asked > most:
        log.warning("--prefix-cache-gib %g is more than there is: %.1f", settings.prefix_cache_gib, most / GIB)
    return min(most, asked)


def room(pair: Spare, settings: Settings) -> Room:
    """What is left for running requests."""
    kept = kept_bytes(pair, settings)
    # Asked for every running request in every round.
    return Room(pair.left - kept, lru_cache(maxsize=4096)(pair.beside_bytes), kept)
