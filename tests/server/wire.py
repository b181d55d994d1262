"""What came over the wire, read without any SDK."""

import json
from collections.abc import Iterable
from typing import Any

import httpx2


def events(text: str) -> list[str]:
    """The data of every event; comments are left out."""
    blocks = [block for block in text.split("\n\n") if block]
    return [block.removeprefix("data: ") for block in blocks if not block.startswith(":")]


def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    """All chunks of a stream that must end well."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    *data, done = events(response.text)
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


def deltas(stream: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in stream if chunk["choices"]]


def folded(stream: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream adds up to, put together as simply as the documentation says."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for delta in deltas(stream):
        message["content"] += delta.get("content") or ""
        message["reasoning_content"] += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                assert call["index"] == len(message["tool_calls"])
                message["tool_calls"].append({"name": call["function"]["name"], "arguments": ""})
            message["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
    return message


def refused(response: httpx2.Response) -> dict[str, Any]:
    """The error object, which must have all four keys and a bounded message."""
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(response.content) < 2000
    return error
