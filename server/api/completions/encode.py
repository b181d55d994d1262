"""Events to the chunks of a text completion, and answers to its body."""

import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from server.api.completions.logprobs import logprobs
from server.api.completions.schema import CompletionRequest
from server.api.counts import report, usage
from server.api.sse import DONE, data
from server.api.wire import compact
from server.events import Answer, Content, Event, Finished, summed


@dataclass(frozen=True)
class Envelope:
    """What every chunk of one answer says alike, and what its request wants to be told."""

    key: str
    created: int
    model: str
    echoes: tuple[str, ...]
    """What goes before each choice's text; the choices of a prompt stand beside each other. A prompt whose tokens are
    told is part of the text, and not among these."""
    choices: int = 1
    """Answers to each prompt."""
    logprobs: bool = False
    include_usage: bool = False

    @classmethod
    def fresh(cls, model: str, asked: CompletionRequest, prompts: Sequence[str]) -> "Envelope":
        """For an answer that begins now; `prompts` are what it repeats of each prompt."""
        return cls(
            uuid.uuid4().hex,
            int(time.time()),
            model,
            tuple(prompt for prompt in prompts for _ in range(asked.choices)),
            asked.choices,
            logprobs=asked.logprobs is not None,
            include_usage=asked.include_usage,
        )

    def head(self) -> dict[str, Any]:
        """What whole answers and chunks begin with alike."""
        return {"id": f"cmpl-{self.key}", "object": "text_completion", "created": self.created, "model": self.model}


def body(answers: Sequence[Answer], envelope: Envelope) -> dict[str, Any]:
    """The answers as `text_completion`, prompt by prompt."""
    counted, reported = summed([answer.finished for answer in answers], envelope.choices)
    return envelope.head() | {
        "choices": [_whole(index, answer, envelope) for index, answer in enumerate(answers)],
        "usage": usage(counted),
        "laguna": report(reported),
    }


def _whole(index: int, answer: Answer, envelope: Envelope) -> dict[str, Any]:
    echo = envelope.echoes[index]
    scores = logprobs(answer.tokens, len(echo)) if envelope.logprobs else None
    return _choice(index, echo + (answer.message.content or ""), scores, answer.finished.reason)


def _choice(index: int, text: str, scores: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": scores, "finish_reason": reason}


async def frames(told: AsyncGenerator[tuple[int, Event]], envelope: Envelope) -> AsyncGenerator[bytes]:
    """The stream; what is repeated of the prompts goes out before there is anything new to say."""
    head = compact(envelope.head())[:-1]
    # With usage asked for, every chunk but the one that has it says null; otherwise none has the key.
    tail = ',"usage":null}' if envelope.include_usage else "}"

    def chunk(choice: dict[str, Any], extra: str = "") -> bytes:
        return data(f'{head},"choices":[{compact(choice)}]{extra}{tail}')

    for index, echo in enumerate(envelope.echoes):
        if echo:
            yield chunk(_choice(index, echo, None, None))
    offsets = [len(echo) for echo in envelope.echoes]
    ends: dict[int, Finished] = {}
    async with aclosing(told):
        async for index, event in told:
            match event:
                case Content(text, tokens):
                    scores = logprobs(tokens, offsets[index]) if envelope.logprobs else None
                    offsets[index] += len(text)
                    yield chunk(_choice(index, text, scores, None))
                case Finished(reason):
                    ends[index] = event
                    last = len(ends) == len(envelope.echoes)
                    counts = _counts(ends, envelope) if last else {}
                    extra = _members(laguna=counts["laguna"]) if last and not envelope.include_usage else ""
                    yield chunk(_choice(index, "", None, reason), extra)
                    if last and envelope.include_usage:
                        yield data(f'{head},"choices":[]{_members(**counts)}}}')
    yield DONE


def _counts(ends: dict[int, Finished], envelope: Envelope) -> dict[str, Any]:
    counted, reported = summed([ends[index] for index in sorted(ends)], envelope.choices)
    return {"usage": usage(counted), "laguna": report(reported)}


def _members(**values: object) -> str:
    """Further members of an object that is already open."""
    return "," + compact(values)[1:-1]
