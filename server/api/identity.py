"""A name for every request, in the header where the SDKs look for it."""

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = ("x-request-id", "request-id")
_STATE = "request_id"
_SANE = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id(request: Request) -> str:
    """The id of a request that came through `RequestId`."""
    return request.state.request_id


class RequestId:
    """Answers carry their id, under the names that OpenAI's and Anthropic's SDKs look for: the client's own
    `x-request-id`, where that is fit for a header and a log, or a fresh one.

    Plain ASGI: a middleware that wraps the body would hide a client's leaving.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; the head of the answer gets the id, which `request_id` tells in between."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        theirs = Headers(scope=scope).get(HEADERS[0], "")
        name = theirs if _SANE.fullmatch(theirs) else f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})[_STATE] = name

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(dict.fromkeys(HEADERS, name))
            await send(message)

        await self._app(scope, receive, named)
