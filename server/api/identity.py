"""A name for every request, in the header where the SDKs look for it."""

import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RequestId:
    """Answers carry `x-request-id`. Plain ASGI: a middleware that wraps the body would hide a client's leaving."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; the head of the answer gets one header more."""

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = f"req_{uuid.uuid4().hex}"
            await send(message)

        await self._app(scope, receive, named)
