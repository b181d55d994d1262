"""Events to the frames of a message, and an answer to its body."""

import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from sse_starlette import ServerSentEvent

from server.api.blocks import Block, Blocks, Close, Grow, Open, Step
from server.api.sealing import SHOWN, sealed
from server.api.sse import named
from server.api.wire import compact
from server.events import Answer, Event, Finished, Usage


@dataclass(frozen=True)
class Envelope:
    """What is known of an answer before it begins."""

    key: str
    """32 hexadecimal digits, new for each answer; all ids in it are made from them."""
    model: str
    prompt_tokens: int
    omits_thinking: bool = False

    @classmethod
    def fresh(cls, model: str, prompt_tokens: int, *, omits_thinking: bool) -> "Envelope":
        """For an answer that begins now."""
        return cls(uuid.uuid4().hex, model, prompt_tokens, omits_thinking)

    def message(self, content: list[dict[str, Any]], ended: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        """The message object."""
        head = {"id": f"msg_{self.key}", "type": "message", "role": "assistant", "model": self.model}
        return head | {"content": content} | ended | {"usage": usage}

    def begun(self, block: Block) -> dict[str, Any]:
        """A block without what is to come."""
        match block.kind:
            case "text":
                return {"type": "text", "text": ""}
            case "thinking":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case "tool_use":
                id_ = f"toolu_{self.key[:24]}_{block.call}"
                return {"type": "tool_use", "id": id_, "name": block.name, "input": {}}

    def signature(self, thinking: str) -> str:
        """What goes with a thinking block."""
        return sealed(thinking) if self.omits_thinking else SHOWN


def body(answer: Answer, envelope: Envelope) -> dict[str, Any]:
    """The answer as `message`."""
    blocks, content = Blocks(), []
    steps = [step for piece in answer.pieces for step in blocks.push(piece)]
    for step in [*steps, *blocks.finish()]:
        # A call that was cut or broken is none: its text follows as text.
        if isinstance(step, Close) and step.whole:
            content.append(_whole(step, envelope))
    ended = answer.finished
    return envelope.message(content, _ending(ended), usage(ended.usage)) | {"laguna": asdict(ended.report)}


def _whole(step: Close, envelope: Envelope) -> dict[str, Any]:
    block = envelope.begun(step.block)
    match step.block.kind:
        case "text":
            return block | {"text": step.text}
        case "thinking":
            shown = "" if envelope.omits_thinking else step.text
            return block | {"thinking": shown, "signature": envelope.signature(step.text)}
        case "tool_use":
            return block | {"input": json.loads(step.text)}


async def frames(events: AsyncGenerator[Event], envelope: Envelope) -> AsyncGenerator[bytes]:
    """The stream. It begins before there is anything to say, so that the client knows we are here."""
    started = envelope.message([], {"stop_reason": None, "stop_sequence": None}, _counted(envelope.prompt_tokens, 0, 0))
    yield _frame("message_start", {"message": started})
    blocks = Blocks()
    async with aclosing(events):
        async for event in events:
            for frame in _told(event, blocks, envelope):
                yield frame


def _told(event: Event, blocks: Blocks, envelope: Envelope) -> Iterator[bytes]:
    steps = blocks.finish() if isinstance(event, Finished) else blocks.push(event)
    for step in steps:
        yield from _rendered(step, envelope)
    if isinstance(event, Finished):
        ended = {"delta": _ending(event), "usage": usage(event.usage), "laguna": asdict(event.report)}
        yield _frame("message_delta", ended)
        yield _frame("message_stop", {})


def _rendered(step: Step, envelope: Envelope) -> Iterator[bytes]:
    match step:
        case Open(index, block):
            yield _frame("content_block_start", {"index": index, "content_block": envelope.begun(block)})
        case Grow(index, block, text):
            if block.kind == "thinking" and envelope.omits_thinking:
                return
            kind, name = _DELTAS[block.kind]
            yield _frame("content_block_delta", {"index": index, "delta": {"type": kind, name: text}})
        case Close(index, block, text):
            if block.kind == "thinking":
                signed = {"type": "signature_delta", "signature": envelope.signature(text)}
                yield _frame("content_block_delta", {"index": index, "delta": signed})
            yield _frame("content_block_stop", {"index": index})


_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def _frame(name: str, told: dict[str, Any]) -> bytes:
    return named(name, compact({"type": name} | told))


def ping() -> ServerSentEvent:
    """What keeps a stream open: an event, since some clients count nothing else."""
    return ServerSentEvent(event="ping", data='{"type":"ping"}', sep="\n")


def _ending(finished: Finished) -> dict[str, Any]:
    reason = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}[finished.reason]
    if finished.reason == "stop" and finished.stop is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": finished.stop}
    return {"stop_reason": reason, "stop_sequence": None}


def usage(usage: Usage) -> dict[str, Any]:
    """Tokens as Anthropic counts them: what was read from a cache is not input."""
    details = {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
    return _counted(usage.prompt - usage.cached, usage.cached, usage.completion) | details


def _counted(input_tokens: int, cached: int, output: int) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
        "service_tier": "standard",
    }
