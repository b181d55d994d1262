"""What came over the wire in Anthropic's dialect, read with and without its SDK."""

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2

from tests.server.stand import Stand

Frame = tuple[str, dict[str, Any]]
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def asked(**body: object) -> dict[str, object]:
    return {"model": "claude-haiku-4-5", "max_tokens": 200, "messages": HI} | body


def post(served: Stand, **body: object) -> httpx2.Response:
    """A message with one user's turn, unless `messages` says otherwise."""
    return served.http.post("/v1/messages", json=asked(**body))


@contextmanager
def sdk(port: int) -> Generator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def frames(text: str) -> list[Frame]:
    """Every event by its name, which its data must repeat."""
    found: list[Frame] = []
    for block in text.split("\n\n")[:-1]:
        named, data = block.split("\n")
        told = json.loads(data.removeprefix("data: "))
        assert named == f"event: {told['type']}"
        found.append((told["type"], told))
    return found


def streamed(response: httpx2.Response) -> list[Frame]:
    """All frames of a stream that must end well."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    told = frames(response.text)
    assert [name for name, _ in told[-2:]] == ["message_delta", "message_stop"]
    return told


_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def folded(told: Iterable[Frame]) -> dict[str, Any]:
    """The message that a stream adds up to, put together as simply as the documentation says, its nesting checked."""
    message: dict[str, Any] = {}
    open_at: int | None = None
    for name, data in told:
        match name:
            case "message_start":
                assert not message
                message = data["message"]
            case "content_block_start":
                assert open_at is None
                open_at = len(message["content"])
                assert data["index"] == open_at
                message["content"].append(data["content_block"] | {"partial_json": ""})
            case "content_block_delta":
                assert data["index"] == open_at
                field = _GROWS[data["delta"]["type"]]
                assert data["delta"][field] or field == "signature"
                message["content"][-1][field] += data["delta"][field]
            case "content_block_stop":
                assert data["index"] == open_at
                open_at = None
            case "message_delta":
                assert open_at is None
                message |= data["delta"] | {"laguna": data["laguna"]}
                message["usage"] |= data["usage"]
    message["content"] = [block for block in map(_whole, message["content"]) if block is not None]
    return message


def _whole(block: dict[str, Any]) -> dict[str, Any] | None:
    """The block as an answer has it; None for a call whose arguments are no JSON object: it was cut."""
    text = block.pop("partial_json")
    if block["type"] != "tool_use":
        return block
    try:
        return block | {"input": json.loads(text)}
    except ValueError:
        return None


def refused(response: httpx2.Response) -> dict[str, str]:
    """The error, which must have Anthropic's shape, a bounded message and the id of the header."""
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert body.keys() == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["request_id"] == response.headers["request-id"]
    assert body["error"].keys() - {"details"} == {"type", "message"}
    assert len(response.content) < 2000
    return body["error"]
