"""Frames of server-sent events: what each dialect's stream has in common."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from server.errors import InternalError, Refusal
from server.generation import Generation
from server.settings import Settings

log = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"


def data(text: str) -> bytes:
    """One event without a name."""
    return f"data: {text}\n\n".encode()


def named(name: str, text: str) -> bytes:
    """One event with a name."""
    return f"event: {name}\ndata: {text}\n\n".encode()


def comment() -> ServerSentEvent:
    """The one form of keep-alive that no client takes for an event."""
    return ServerSentEvent(comment="keep-alive", sep="\n")


class EventStream(EventSourceResponse):
    """A generation, streamed. Its slot is freed when the response ends, in whatever way."""

    def __init__(
        self,
        frames: AsyncGenerator[bytes],
        generation: Generation,
        settings: Settings,
        *,
        headers: Mapping[str, str] | None = None,
        keep_alive: Callable[[], ServerSentEvent] = comment,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`keep_alive` makes what is sent while there is nothing to say; `on_close` is called once it is over."""
        self._generation = generation
        self._on_close = on_close
        super().__init__(
            frames,
            headers=headers,
            ping=settings.keep_alive,
            sep="\n",
            ping_message_factory=keep_alive,
            # When the server stops, the engine ends what is still open after its grace; this only must not be faster.
            shutdown_grace_period=settings.shutdown_grace + 1,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the response. The frames may never be asked for at all, so closing is not left to them."""
        scope["state"]["generation"] = self._generation
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._generation.close()
            self._on_close()


async def guarded(frames: AsyncGenerator[bytes], on_error: Callable[[Refusal], bytes]) -> AsyncGenerator[bytes]:
    """The frames, and after a failure one that says so: a stream that is only cut looks like a whole answer."""
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    except Refusal as refusal:
        yield on_error(refusal)
    # The last place that can still tell the client of a fault of ours.
    except Exception:
        log.exception("a stream failed")
        yield on_error(InternalError())
