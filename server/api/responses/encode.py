"""Events to those of a streamed response. A whole answer is the response at their end."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from sse_starlette import ServerSentEvent

from server.api.blocks import Blocks, Close, Step
from server.api.responses.output import Output
from server.api.responses.schema import Understood
from server.api.sse import comment, named
from server.api.wire import compact
from server.errors import Cancelled, Refusal, clipped
from server.events import Answer, Content, Event, Finished, Usage
from server.served import Model
from server.verdicts import MESSAGE_LIMIT, verdict

Told = dict[str, Any]


@dataclass(frozen=True)
class Envelope:
    """What all responses of one answer say alike."""

    id: str
    head: Told
    output: Output

    @classmethod
    def fresh(cls, model: Model, told: Understood) -> "Envelope":
        """For an answer that begins now."""
        asked, present = told.asked, told.present
        echoed = {name: present.get(name) for name in _ECHOED}
        tier = {} if asked.service_tier is None else {"service_tier": "default"}
        drawn = {
            "temperature": model.sampling.temperature if asked.temperature is None else asked.temperature,
            "top_p": model.sampling.top_p if asked.top_p is None else asked.top_p,
            "top_logprobs": asked.top_logprobs or 0,
        }
        kept = {"background": False, "store": told.stored, "truncation": asked.truncation or "disabled"}
        called = {
            "tools": asked.tools or [],
            "tool_choice": present.get("tool_choice", "auto"),
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
        }
        shaped = {"text": {"format": {"type": "text"}, "verbosity": "medium"} | present.get("text", {})}
        thought = {"reasoning": {"effort": None, "summary": None} | present.get("reasoning", {})}
        id_ = f"resp_{told.key}"
        head = {"id": id_, "object": "response", "created_at": int(time.time()), "model": model.id}
        whole = head | echoed | {"metadata": asked.metadata or {}} | tier | drawn | kept | called | shaped | thought
        return cls(id_, whole, Output.of(told))

    def response(self, status: str, output: list[Told], **more: object) -> Told:
        """The response object."""
        empty = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None}
        return self.head | {"status": status, "output": output} | empty | more


_ECHOED = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "safety_identifier",
    "user",
)


Ended = Callable[[Told, list[Told]], None]
"""What is given the last response object, and its items."""


def _untold(_: Told, __: list[Told]) -> None:
    return


class Telling:
    """The events of one response, each with its number; what it has come to so far is its output."""

    def __init__(self, envelope: Envelope, ended: Ended = _untold) -> None:
        """`ended` is told of the end before anybody else is."""
        self._envelope = envelope
        self._ended = ended
        self._blocks = Blocks()
        self._output: list[Told] = []
        self._number = 0
        self._open = False
        self.over = False
        """The last event was told."""

    @property
    def running(self) -> Told:
        """The response while there is more to come."""
        return self._envelope.response("in_progress", [])

    def begun(self) -> list[Told]:
        """What a stream says before there is anything to say."""
        return [self._told(f"response.{name}", response=self.running) for name in ("created", "in_progress")]

    def still(self) -> Told:
        """What keeps a stream open: an event, since some clients count nothing else."""
        return self._told("response.in_progress", response=self.running)

    def event(self, event: Event) -> Iterator[Told]:
        """What one event of the generation is here."""
        if not isinstance(event, Finished):
            yield from self._steps(self._blocks.push(event))
            return
        cut = event.reason == "length"
        if not self._output and not self._open:
            yield from self._steps(self._blocks.push(Content("")))
        yield from self._steps(self._blocks.finish(), cut=cut)
        kind = "incomplete" if cut else "completed"
        why = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {"completed_at": int(time.time())}
        yield self._end(kind, kind, usage=usage(event.usage), laguna=asdict(event.report), **why)

    def failed(self, refusal: Refusal) -> Told:
        """What a stream that failed ends with: a bare error event would lose its message in some clients."""
        row = verdict(refusal)
        code = {429: "rate_limit_exceeded"}.get(row.status, "server_error" if row.status >= 500 else row.code)
        error = {"code": code or row.type, "message": clipped(refusal.message, MESSAGE_LIMIT)}
        return self._end("failed", "cancelled" if isinstance(refusal, Cancelled) else "failed", error=error)

    def _end(self, kind: str, status: str, **more: object) -> Told:
        response = self._envelope.response(status, self._output, **more)
        self.over = True
        self._ended(response, self._output)
        return self._told(f"response.{kind}", response=response)

    def _steps(self, steps: list[Step], *, cut: bool = False) -> Iterator[Told]:
        for step in steps:
            self._open = not isinstance(step, Close)
            for name, told in self._envelope.output.events(step, cut=cut):
                yield self._told(f"response.{name}", output_index=step.index, **told)
            if isinstance(step, Close):
                self._output.append(self._envelope.output.ended(step, cut=cut))

    def _told(self, type_: str, **told: object) -> Told:
        number, self._number = self._number, self._number + 1
        return {"type": type_, "sequence_number": number, **told}


def body(answer: Answer, telling: Telling) -> Told:
    """The answer as `response`: what the last event of its stream tells."""
    told = [event for piece in (*answer.pieces, answer.finished) for event in telling.event(piece)]
    return told[-1]["response"]


async def frames(events: AsyncGenerator[Event], telling: Telling) -> AsyncGenerator[bytes]:
    """The stream. It begins before there is anything to say, so that the client knows we are here."""
    for told in telling.begun():
        yield frame(told)
    async with aclosing(events):
        async for event in events:
            for told in telling.event(event):
                yield frame(told)


def frame(told: Told) -> bytes:
    """One event of the stream."""
    return named(told["type"], compact(told))


def failure(telling: Telling, refusal: Refusal) -> bytes:
    """What ends a stream that failed after its first byte."""
    return frame(telling.failed(refusal))


def keep_alive(telling: Telling) -> ServerSentEvent:
    """One more event that says nothing new, or nothing at all once the last one was told."""
    if telling.over:
        return comment()
    told = telling.still()
    return ServerSentEvent(event=told["type"], data=compact(told), sep="\n")


def usage(usage: Usage) -> Told:
    """Tokens as the Responses API counts them."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
