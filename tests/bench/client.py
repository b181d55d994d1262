"""One streamed chat completion over a plain socket, with the time of every frame: a client that costs little."""

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Heard:
    """What came back. Times are of one monotonic clock, in seconds."""

    sent: float
    frames: tuple[tuple[float, dict[str, Any]], ...]
    error: str | None = None

    @property
    def role(self) -> float:
        """Seconds until anything came."""
        return self.frames[0][0] - self.sent

    @property
    def spoken(self) -> list[float]:
        """When the frames came that bring text, reasoning or a call."""
        return [at for at, frame in self.frames if _speaks(frame)]

    @property
    def first(self) -> float:
        """Seconds until the first text."""
        return self.spoken[0] - self.sent

    @property
    def whole(self) -> float:
        """Seconds until the last frame."""
        return self.frames[-1][0] - self.sent

    @property
    def gaps(self) -> list[float]:
        """Seconds between frames that bring text."""
        return [later - earlier for earlier, later in pairwise(self.spoken)]

    @property
    def usage(self) -> dict[str, Any]:
        """The usage that was reported last."""
        return next((frame["usage"] for _, frame in reversed(self.frames) if frame.get("usage")), {})

    @property
    def tokens(self) -> int:
        """Completion tokens, as the server counts them."""
        return self.usage.get("completion_tokens") or 0

    @property
    def finish(self) -> str | None:
        """Why it ended."""
        choices = [frame["choices"][0] for _, frame in self.frames if frame.get("choices")]
        return next((choice["finish_reason"] for choice in reversed(choices) if choice.get("finish_reason")), None)

    @property
    def cached(self) -> int:
        """Prompt tokens that the server did not read again."""
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0

    @property
    def laguna(self) -> dict[str, Any]:
        """Our own field of the last frame that has one."""
        return next((frame["laguna"] for _, frame in reversed(self.frames) if frame.get("laguna")), {})

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message, put together."""
        return _folded([_delta(frame) for _, frame in self.frames])


def chat(port: int, body: Body, timeout: float = 300.0) -> Heard:
    """Ask for a streamed answer with its usage and listen to the end; what goes wrong is in `error`."""
    sent, frames = time.perf_counter(), list[tuple[float, bytes]]()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    error, ended = None, False
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            return Heard(sent, (), f"status {response.status}: {response.read(500).decode(errors='replace')}")
        while line := response.readline():
            if line.startswith(b"data: [DONE]"):
                ended = True
                break
            if line.startswith(b"data: "):
                frames.append((time.perf_counter(), line[6:]))
    except (OSError, http.client.HTTPException) as failure:
        error = f"{type(failure).__name__}: {failure}"
    finally:
        connection.close()
    parsed = tuple((at, json.loads(line)) for at, line in frames)
    wrong = next((str(frame["error"]) for _, frame in parsed if "error" in frame), None)
    return Heard(sent, parsed, error or wrong or (None if ended else "the stream broke off"))


def _delta(frame: dict[str, Any]) -> dict[str, Any]:
    choices = frame.get("choices") or [{}]
    return choices[0].get("delta") or {}


def _speaks(frame: dict[str, Any]) -> bool:
    delta = _delta(frame)
    return any(delta.get(name) for name in ("content", "reasoning_content", "reasoning", "tool_calls"))


def _folded(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(d.get("content") or "" for d in deltas)}
    reasoning = "".join(d.get("reasoning_content") or d.get("reasoning") or "" for d in deltas)
    calls: dict[int, dict[str, Any]] = {}
    for part in [call for delta in deltas for call in delta.get("tool_calls") or ()]:
        known = calls.setdefault(part.get("index", len(calls)), {"type": "function", "function": {"arguments": ""}})
        known["id"] = part.get("id") or known.get("id")
        told = part.get("function") or {}
        known["function"]["name"] = told.get("name") or known["function"].get("name")
        known["function"]["arguments"] += told.get("arguments") or ""
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message
