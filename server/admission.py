"""What memory holds: how much is kept of earlier prompts, how long a conversation may be, and how many run at once."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from models.decode.request import Request
from server.settings import Settings

log = logging.getLogger(__name__)

GIB = 2**30

EXPECTED = 4096
"""Tokens of an answer that room is kept for; few answers use up a larger budget."""

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
        """The most that the caches of one conversation of so many tokens take."""
        ...


@dataclass(frozen=True)
class Room:
    """Bytes for the caches of running requests, and what one takes by its tokens."""

    size: int
    session_bytes: Callable[[int], int]

    def longest(self, context_length: int) -> int:
        """Tokens of the longest conversation that fits alone, up to `context_length`."""
        return bisect_right(range(1, context_length + 1), self.size, key=self.session_bytes)

    def fits(self, running: Sequence[Request], more: Request) -> bool:
        """Whether a request may join those that run. Alone it always may: what is too long was refused before."""
        expected = [len(request.prompt) + min(request.max_tokens, EXPECTED) for request in (*running, more)]
        return not running or sum(map(self.session_bytes, expected)) <= self.size


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
    return Room(pair.left - kept_bytes(pair, settings), pair.session_bytes)
