"""Events to the chunks of a chat completion, and an answer to its body."""

import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, assert_never

from server.api.sse import DONE, data
from server.api.wire import compact
from server.errors import Refusal, envelope
from server.events import (
    Answer,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Finished,
    Reasoning,
    Report,
    Usage,
)
from server.settings import ReasoningField

_NAMES: Mapping[ReasoningField, tuple[str, ...]] = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}


@dataclass(frozen=True)
class Envelope:
    """What every chunk of one answer says alike."""

    key: str
    """32 hexadecimal digits, new for each answer; all ids in it are made from them."""
    created: int
    model: str
    reasoning_field: ReasoningField

    @classmethod
    def fresh(cls, model: str, reasoning_field: ReasoningField) -> "Envelope":
        """For an answer that begins now."""
        return cls(uuid.uuid4().hex, int(time.time()), model, reasoning_field)

    @property
    def id(self) -> str:
        """The completion's id."""
        return f"chatcmpl-{self.key}"

    def call_id(self, index: int) -> str:
        """The id of the answer's call `index`, the same whether streamed or not, unique across answers."""
        return f"call_{self.key[:24]}{index}"

    def reasoning(self, text: str) -> dict[str, str]:
        """Reasoning under the name or names in use."""
        return dict.fromkeys(_NAMES[self.reasoning_field], text)


def body(answer: Answer, envelope: Envelope) -> dict[str, Any]:
    """The answer as `chat.completion`."""
    message, finished = answer.message, answer.finished
    calls = [
        {
            "id": envelope.call_id(index),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(message.calls)
    ]
    content = message.content if message.content is not None or calls else ""
    spoken: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if message.reasoning:
        spoken |= envelope.reasoning(message.reasoning)
    if calls:
        spoken["tool_calls"] = calls
    return {
        "id": envelope.id,
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [{"index": 0, "message": spoken, "logprobs": None, "finish_reason": finished.reason}],
        "usage": usage(finished.usage),
        "laguna": report(finished.report),
    }


async def frames(events: AsyncGenerator[Event], envelope: Envelope, *, include_usage: bool) -> AsyncGenerator[bytes]:
    """The stream. The role chunk goes out before there is anything to say, so that the client knows we are here."""
    chunk = Chunk(envelope, include_usage=include_usage)
    yield chunk.delta({"role": "assistant", "content": ""})
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                for frame in chunk.ending(event):
                    yield frame
            elif not isinstance(event, CallEnd):
                yield chunk.delta(delta(event, envelope))
    yield DONE


def delta(event: Reasoning | Content | CallStart | CallArguments, envelope: Envelope) -> dict[str, Any]:
    """What one event adds to the message. Id, type and name of a call are sent once: clients concatenate them."""
    match event:
        case Reasoning(text):
            return envelope.reasoning(text)
        case Content(text):
            return {"content": text}
        case CallStart(index, name):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": envelope.call_id(index), "type": "function", "function": function}
            return {"tool_calls": [call]}
        case CallArguments(index, fragment):
            return {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}
        case _:
            assert_never(event)


class Chunk:
    """Frames of one stream. All but the delta is serialised once."""

    def __init__(self, envelope: Envelope, *, include_usage: bool) -> None:
        head = {"id": envelope.id, "object": "chat.completion.chunk", "created": envelope.created}
        self._head = compact(head | {"model": envelope.model})[:-1]
        # With usage asked for, every chunk but the one that has it says null; otherwise none has the key.
        self._tail = ',"usage":null}' if include_usage else "}"
        self._include_usage = include_usage

    def delta(self, delta: Mapping[str, Any]) -> bytes:
        """A chunk that adds to the message."""
        return self._choice(compact(delta), "null", self._tail)

    def ending(self, finished: Finished) -> list[bytes]:
        """The one chunk with a finish reason and, where it was asked for, the one with usage."""
        reason = compact(finished.reason)
        told = f',"laguna":{compact(report(finished.report))}'
        if not self._include_usage:
            return [self._choice("{}", reason, told + self._tail)]
        counted = f'{self._head},"choices":[],"usage":{compact(usage(finished.usage))}{told}}}'
        return [self._choice("{}", reason, self._tail), data(counted)]

    def _choice(self, delta: str, reason: str, tail: str) -> bytes:
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}'
        return data(f'{self._head},"choices":[{choice}]{tail}')


def usage(usage: Usage) -> dict[str, Any]:
    """Tokens as OpenAI counts them. Drafts are not in it: they are ours, and not billed."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def report(report: Report) -> dict[str, Any]:
    """What speculation did: the `laguna` object."""
    return asdict(report)


def error(refusal: Refusal) -> bytes:
    """What ends a stream that failed after its first byte; no finish reason and no `[DONE]` follow."""
    return data(compact(envelope(refusal)))
