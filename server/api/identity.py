"""A name for every request, in the header where the SDKs look for it."""

import uuid

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = ("x-request-id", "request-id")
_STATE = "request_id"


def request_id(request: Request) -> str:
    """The id of a request that came through `RequestId`."""
    return request.state.request_id


class RequestId:
    """Answers carry their id, under the names that OpenAI's and Anthropic's SDKs look for.

    Plain ASGI: a middleware that wraps the body would hide a client's leaving.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; the head of the answer gets the id, which `request_id` tells in between."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = scope.setdefault("state", {})[_STATE] = f"req_{uuid.uuid4().hex}"

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(dict.fromkeys(HEADERS, name))
            await send(message)

        await self._app(scope, receive, named)
