"""One record of every request, and the last place where a fault of ours still becomes an answer."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.course import Figures
from server.door.answering import Answers
from server.errors import InternalError, clipped
from server.generation import Generation
from server.logs import FIELDS
from server.record import Record

log = logging.getLogger(__name__)

QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Asked for every few seconds by whoever watches: told only where the log level is debug."""
GONE = "client_closed_request"


@dataclass
class Heard:
    """What has been sent of one answer."""

    status: int | None = None
    whole: bool = False


class Journal:
    """Writes a line for each request when it is over, and hands the same record on. Plain ASGI."""

    def __init__(self, app: ASGIApp, observe: Callable[[Record], None], answers: Answers) -> None:
        self._app = app
        self._observe = observe
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and take note."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, heard = time.monotonic(), Heard()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                heard.status = message["status"]
            heard.whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        # Whatever no route expects is told here once, with its traceback, and nothing of it in the answer.
        except Exception:
            log.exception("request %s failed", scope["state"]["request_id"])
            if heard.status is not None:
                raise
            await self._answers(Request(scope), InternalError())(scope, receive, noted)
        finally:
            self._tell(_record(scope, heard, began))

    def _tell(self, record: Record) -> None:
        level = logging.DEBUG if record.path in QUIET else logging.INFO
        log.log(level, "%s", record.line(), extra={FIELDS: record.fields()})
        self._observe(record)


def _record(scope: Scope, heard: Heard, began: float) -> Record:
    state: dict[str, Any] = scope["state"]
    generation, route = state.get("generation"), scope.get("route")
    figures = generation.figures if isinstance(generation, Generation) else None
    first = None if figures is None else figures.first
    return Record(
        id=state["request_id"],
        method=scope["method"],
        path=clipped(scope["raw_path"].decode("ascii", "replace"), 200),
        route=route.path.removeprefix("/v1") if isinstance(route, APIRoute) else "none",
        status=heard.status or 499,
        outcome=_outcome(figures, heard, state.get("refused")),
        seconds=time.monotonic() - began,
        first_token_seconds=None if first is None else first - began,
        figures=figures,
    )


def _outcome(figures: Figures | None, heard: Heard, refused: str | None) -> str:
    if refused is not None:
        return refused
    if figures is not None and figures.failure is not None:
        return figures.failure
    if heard.status is None or not heard.whole:
        return GONE
    # A stream that told of a fault of ours ends well on the wire.
    return "ok" if figures is None or figures.whole else "internal_error"
