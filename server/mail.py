"""What the rounds bring to the tickets of one turn, and when it is handed on."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

from models.decode.acceptance import Writer
from models.decode.logprobs import Scored
from models.decode.session import Stats
from server.errors import Refusal


@dataclass(frozen=True)
class Progress:
    """What one round or several brought: plain numbers, the only thing that leaves the thread."""

    ids: tuple[int, ...]
    finish: Literal["stop", "length"] | None
    stats: Stats
    scores: tuple[Scored, ...] = ()
    """One for each id, where the request asked for log probabilities."""
    prompt: tuple[Scored, ...] | None = None
    """With the first ids, one for each prompt token after the first, where that was asked for."""
    writers: tuple[Writer, ...] = ()
    """Who wrote each id first: the source of an accepted draft, or the target."""

    def and_then(self, later: "Progress") -> "Progress":
        """Both together, as if one round had brought them."""
        return Progress(
            self.ids + later.ids,
            later.finish,
            later.stats,
            self.scores + later.scores,
            later.prompt if self.prompt is None else self.prompt,
            self.writers + later.writers,
        )


class Mail:
    """What comes for the tickets of one turn, put together while the reader is busy. Used on the event loop only."""

    def __init__(self) -> None:
        self._waiting: dict[int, Progress] = {}
        self._out: deque[tuple[int, Progress]] = deque()
        self._refusal: Refusal | None = None
        self._due = asyncio.Event()

    def put(self, place: int, news: Progress | Refusal) -> None:
        """Add what came for the ticket at `place`."""
        if isinstance(news, Refusal):
            self._refusal = self._refusal or news
        else:
            before = self._waiting.get(place)
            self._waiting[place] = news if before is None else before.and_then(news)
        self._due.set()

    async def next(self) -> tuple[int, Progress]:
        """The next news of some ticket, by its place.

        Raises:
            Refusal: a request failed, by name; what had come before that is handed on first.
        """
        if not self._out:
            if self._due.is_set():
                # Neither this nor a send to a client that is gone would ever let another task run.
                await asyncio.sleep(0)
            await self._due.wait()
            self._collect()
        if not self._out:
            assert self._refusal is not None
            raise self._refusal
        return self._out.popleft()

    def _collect(self) -> None:
        self._out.extend(self._waiting.items())
        self._waiting.clear()
        if self._refusal is None:
            self._due.clear()
