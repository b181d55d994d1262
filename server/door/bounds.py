"""How much may come in, and how fast it must."""

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.door.answering import Answers
from server.errors import HeadTooLarge, Refusal, SlowUpload, UrlTooLong

HEAD_BYTES = 32 << 10
"""Longest head of a request: all names and values of its headers."""
HEAD_FIELDS = 100
URL_BYTES = 8 << 10


def head_refusal(scope: Scope) -> Refusal | None:
    """What is too much about the head of a request."""
    length = len(scope["raw_path"]) + len(scope["query_string"])
    if length > URL_BYTES:
        return UrlTooLong(f"The URL has {length} bytes, and at most {URL_BYTES} are read.")
    fields = scope["headers"]
    if len(fields) > HEAD_FIELDS:
        return HeadTooLarge(f"The request has {len(fields)} headers, and at most {HEAD_FIELDS} are read.")
    size = sum(len(name) + len(value) for name, value in fields)
    if size > HEAD_BYTES:
        return HeadTooLarge(f"The headers have {size} bytes, and at most {HEAD_BYTES} are read.")
    return None


class Upload:
    """The body of one request, which must be here in time."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._seconds = seconds
        self._end = asyncio.get_running_loop().time() + seconds
        self._whole = False

    async def receive(self) -> Message:
        """The next part; once the body is whole there is no hurry.

        Raises:
            SlowUpload: it did not come in time.
        """
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError as error:
            raise SlowUpload(seconds=self._seconds) from error
        self._whole = not message.get("more_body", False)
        return message


class Bounds:
    """Refuses heads that are too large, and bodies that come too slowly. Plain ASGI."""

    def __init__(self, app: ASGIApp, upload_seconds: float, answers: Answers) -> None:
        self._app = app
        self._upload_seconds = upload_seconds
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is within bounds."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = head_refusal(scope)
        if refusal is None:
            await self._app(scope, Upload(receive, self._upload_seconds).receive, send)
            return
        await self._answers(Request(scope), refusal)(scope, receive, send)
