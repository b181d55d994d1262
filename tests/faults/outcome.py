"""A client in bare bytes, and what became of its request: answered, refused by name, cut short or never ended."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Literal

import h11

LONG = 30.0
"""Seconds after which a request that has not ended hangs."""

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Outcome:
    """What a client that waited for the end came to know."""

    end: Literal["answered", "refused", "cut", "hung"]
    status: int | None = None
    text: str = ""
    """The answer, as far as it came."""
    code: str | None = None
    """The refusal's."""
    body: bytes = b""


def request_bytes(body: object, path: str = CHAT, **headers: str) -> bytes:
    """A request whose connection is not used again; a body of bytes is sent as it is, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"}
    told |= {"Content-Length": str(len(content))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content


def prompt(text: str, **more: object) -> dict[str, object]:
    """A chat of one message."""
    return {"model": "Laguna-Script", "messages": [{"role": "user", "content": text}]} | more


async def ask(port: int, data: bytes, *, seconds: float = LONG) -> Outcome:
    """Send a whole request and read to the end."""
    try:
        async with asyncio.timeout(seconds):
            return outcome(await _exchanged(port, data))
    except TimeoutError:
        return Outcome("hung")


async def _exchanged(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = bytearray()
    try:
        writer.write(data)
        while piece := await reader.read(1 << 16):
            answer += piece
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return bytes(answer)


def outcome(answer: bytes) -> Outcome:
    """Read what a server sent until it closed the connection."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(answer)
    connection.receive_data(b"")
    status, body = None, bytearray()
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
            match event:
                case h11.Response():
                    status, kind = event.status_code, dict(event.headers)[b"content-type"]
                case h11.Data():
                    body += event.data
    except h11.RemoteProtocolError:
        return Outcome("cut", status, body=bytes(body))
    if status is None:
        return Outcome("cut")
    return _streamed(bytes(body)) if kind.startswith(b"text/event-stream") else _whole(status, bytes(body))


def _whole(status: int, body: bytes) -> Outcome:
    told: dict[str, Any] = json.loads(body)
    if status != 200:
        return Outcome("refused", status, code=told["error"].get("code"), body=body)
    choices = told.get("choices", [])
    return Outcome("answered", status, "".join(map(_said, choices)), body=body)


ENDS = frozenset({"message_stop", "response.completed", "response.incomplete"})
"""What ends a stream that does not say `[DONE]`, by dialect."""


def _streamed(body: bytes) -> Outcome:
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]
    chunks: list[dict[str, Any]] = [json.loads(line) for line in lines if line != "[DONE]"]
    text = "".join(_said(choice) for chunk in chunks for choice in chunk.get("choices", ()))
    if lines and (lines[-1] == "[DONE]" or chunks[-1].get("type") in ENDS):
        return Outcome("answered", 200, text, body=body)
    if chunks and "error" in chunks[-1]:
        return Outcome("refused", 200, text, chunks[-1]["error"].get("code"), body)
    return Outcome("cut", 200, text, body=body)


def _said(choice: dict[str, Any]) -> str:
    message = choice.get("message") or choice.get("delta") or choice
    return (message.get("reasoning_content") or "") + (message.get("content") or message.get("text") or "")
