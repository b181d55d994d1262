"""Events to the chunks of a chat completion, and an answer to its body."""

import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, assert_never

from server.api.chat.schema import ChatRequest
from server.api.counts import report, usage
from server.api.logprobs import logprobs
from server.api.sse import DONE, data
from server.api.wire import compact
from server.events import (
    Answer,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Finished,
    Piece,
    Reasoning,
    summed,
)
from server.settings import ReasoningField

_NAMES: Mapping[ReasoningField, tuple[str, ...]] = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}


@dataclass(frozen=True)
class Envelope:
    """What every chunk of one answer says alike, and what its request wants to be told."""

    key: str
    """32 hexadecimal digits, new for each answer; all ids in it are made from them."""
    created: int
    model: str
    reasoning_field: ReasoningField
    choices: int = 1
    logprobs: bool = False
    tokens: bool = False
    """Every choice tells its tokens, and who wrote them."""
    include_usage: bool = False
    service_tier: bool = False
    """The request named one; the answer says which it got, and there is only one."""

    @classmethod
    def fresh(cls, model: str, reasoning_field: ReasoningField, asked: ChatRequest) -> "Envelope":
        """For an answer that begins now."""
        return cls(
            uuid.uuid4().hex,
            int(time.time()),
            model,
            reasoning_field,
            choices=asked.n or 1,
            logprobs=bool(asked.logprobs),
            tokens=asked.writers,
            include_usage=asked.include_usage,
            service_tier=asked.service_tier is not None,
        )

    def head(self, kind: str) -> dict[str, Any]:
        """What an answer of this kind of object begins with."""
        tier = {"service_tier": "default"} if self.service_tier else {}
        return {"id": f"chatcmpl-{self.key}", "object": kind, "created": self.created, "model": self.model} | tier

    def call_id(self, choice: int, index: int) -> str:
        """The id of a choice's call `index`, the same whether streamed or not, unique across choices and answers."""
        return f"call_{self.key[:24]}{choice or ''}{'_' if choice else ''}{index}"

    def reasoning(self, text: str) -> dict[str, str]:
        """Reasoning under the name or names in use."""
        return dict.fromkeys(_NAMES[self.reasoning_field], text)


def body(answers: Sequence[Answer], envelope: Envelope) -> dict[str, Any]:
    """The answers as `chat.completion`, one a choice."""
    counted, reported = summed([answer.finished for answer in answers])
    return envelope.head("chat.completion") | {
        "choices": [_choice(index, answer, envelope) for index, answer in enumerate(answers)],
        "usage": usage(counted),
        "laguna": report(reported),
    }


def _choice(choice: int, answer: Answer, envelope: Envelope) -> dict[str, Any]:
    message = answer.message
    calls = [
        {
            "id": envelope.call_id(choice, index),
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
    scores = logprobs(answer.tokens) if envelope.logprobs else None
    told = {"laguna": {"tokens": written(answer.pieces)}} if envelope.tokens else {}
    return {"index": choice, "message": spoken, "logprobs": scores, "finish_reason": answer.finished.reason} | told


async def frames(told: AsyncGenerator[tuple[int, Event]], envelope: Envelope) -> AsyncGenerator[bytes]:
    """The stream. The role chunks go out before there is anything to say, so that the client knows we are here."""
    chunk = Chunk(envelope)
    for choice in range(envelope.choices):
        yield chunk.delta(choice, {"role": "assistant", "content": ""})
    ends: dict[int, Finished] = {}
    async with aclosing(told):
        async for choice, event in told:
            if isinstance(event, Finished):
                ends[choice] = event
                for frame in chunk.ending(choice, ends):
                    yield frame
            elif envelope.tokens or not isinstance(event, CallEnd):
                yield chunk.event(choice, event)
    yield DONE


def written(pieces: Sequence[Piece]) -> list[list[str]]:
    """Each token's text and writer. Of a text they join to it; of a call they are what was written of it."""
    spoken = (piece for piece in pieces if isinstance(piece, Reasoning | Content | CallEnd))
    return [[token.text, token.writer] for piece in spoken for token in piece.tokens]


def delta(event: Piece, envelope: Envelope, choice: int) -> dict[str, Any]:
    """What one event adds to the message. Id, type and name of a call are sent once: clients concatenate them."""
    match event:
        case Reasoning(text):
            return envelope.reasoning(text)
        case Content(text):
            return {"content": text}
        case CallStart(index, name):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": envelope.call_id(choice, index), "type": "function", "function": function}
            return {"tool_calls": [call]}
        case CallArguments(index, fragment):
            return {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}
        case CallEnd():
            return {}
        case _:
            assert_never(event)


class Chunk:
    """Frames of one stream. All but the delta is serialised once."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._head = compact(envelope.head("chat.completion.chunk"))[:-1]
        # With usage asked for, every chunk but the one that has it says null; otherwise none has the key.
        self._tail = ',"usage":null}' if envelope.include_usage else "}"

    def event(self, choice: int, event: Piece) -> bytes:
        """A chunk that adds what one event says."""
        scores = compact(logprobs(event.tokens)) if self._envelope.logprobs and isinstance(event, Content) else "null"
        tokens = written([event]) if self._envelope.tokens else []
        return self.delta(choice, delta(event, self._envelope, choice), scores, tokens)

    def delta(
        self, choice: int, delta: Mapping[str, Any], scores: str = "null", tokens: Sequence[Sequence[str]] = ()
    ) -> bytes:
        """A chunk that adds to the message."""
        told = f',"laguna":{{"tokens":{compact(tokens)}}}' if tokens else ""
        return self._choice(choice, compact(delta), scores, f"null{told}", self._tail)

    def ending(self, choice: int, ends: Mapping[int, Finished]) -> list[bytes]:
        """The one chunk of a choice with a finish reason and, after the last, one with usage where it was asked for.

        `ends` are those of all choices that are over, this one's too.
        """
        reason = compact(ends[choice].reason)
        if len(ends) < self._envelope.choices:
            return [self._choice(choice, "{}", "null", reason, self._tail)]
        counted, reported = summed([ends[index] for index in sorted(ends)])
        told = f',"laguna":{compact(report(reported))}'
        if not self._envelope.include_usage:
            return [self._choice(choice, "{}", "null", reason, told + self._tail)]
        total = f'{self._head},"choices":[],"usage":{compact(usage(counted))}{told}}}'
        return [self._choice(choice, "{}", "null", reason, self._tail), data(total)]

    def _choice(self, index: int, delta: str, scores: str, reason: str, tail: str) -> bytes:
        choice = f'{{"index":{index},"delta":{delta},"logprobs":{scores},"finish_reason":{reason}}}'
        return data(f'{self._head},"choices":[{choice}]{tail}')
