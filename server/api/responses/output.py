"""The items of an answer, and what a stream says of each as it is written."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from server.api.blocks import Close, Grow, Open, Step
from server.api.logprobs import entry
from server.api.responses.schema import SEALED, Understood
from server.api.sealing import sealed

Told = dict[str, Any]

_PREFIX = {"text": "msg", "thinking": "rs", "tool_use": "fc"}


@dataclass(frozen=True)
class Output:
    """How the blocks of an answer look as items."""

    key: str
    """32 hexadecimal digits, from which all ids are made."""
    summarised: bool = False
    """Thinking is a summary, not a content."""
    seals: bool = False
    """Thinking goes along in the field that clients send back unread, too: some send nothing else of it."""
    scored: bool = False

    @classmethod
    def of(cls, told: Understood) -> "Output":
        """As a request wants it."""
        asked = told.asked
        seals = SEALED in asked.included or not told.stored
        return cls(told.key, asked.summarised, seals, asked.scores is not None)

    def id(self, step: Step) -> str:
        """The id of the item that a step is about."""
        return f"{_PREFIX[step.block.kind]}_{self.key}{step.index}"

    def begun(self, step: Step) -> Told:
        """The item before anything of it is written."""
        head = {"id": self.id(step), "status": "in_progress"}
        match step.block.kind:
            case "text":
                return head | {"type": "message", "role": "assistant", "content": []}
            case "thinking":
                return head | {"type": "reasoning", "summary": [], "content": [], "encrypted_content": None}
            case "tool_use":
                call_id = f"call_{self.key[:24]}{step.block.call}"
                return head | {"type": "function_call", "call_id": call_id, "name": step.block.name, "arguments": ""}

    def ended(self, step: Close, *, cut: bool) -> Told:
        """The item, whole. `cut` says that the token limit ended it."""
        item = self.begun(step) | {"status": "completed" if step.whole and not cut else "incomplete"}
        match step.block.kind:
            case "text":
                return item | {"content": [self._part(step)]}
            case "thinking":
                told = {"encrypted_content": sealed(step.text) if self.seals else None}
                return item | told | {"summary" if self.summarised else "content": [self._part(step)]}
            case "tool_use":
                return item | {"arguments": step.text}

    def events(self, step: Step, *, cut: bool = False) -> Iterator[tuple[str, Told]]:
        """The events of a step by their names, without their numbers."""
        match step.block.kind:
            case "tool_use":
                between = self._call(step)
            case "thinking" if self.summarised:
                between = self._summary(step)
            case _:
                between = self._content(step)
        if isinstance(step, Open):
            yield "output_item.added", {"item": self.begun(step)}
        yield from between
        if isinstance(step, Close):
            yield "output_item.done", {"item": self.ended(step, cut=cut)}

    def _content(self, step: Step) -> Iterator[tuple[str, Told]]:
        text = step.block.kind == "text"
        kind = "output_text" if text else "reasoning_text"
        place = {"item_id": self.id(step), "content_index": 0}
        match step:
            case Open():
                yield "content_part.added", place | {"part": self._part(step)}
            case Grow(text=""):
                return
            case Grow():
                yield f"{kind}.delta", place | {"delta": step.text} | (self._scores(step) if text else {})
            case Close():
                yield f"{kind}.done", place | {"text": step.text} | (self._scores(step) if text else {})
                yield "content_part.done", place | {"part": self._part(step)}

    def _summary(self, step: Step) -> Iterator[tuple[str, Told]]:
        place = {"item_id": self.id(step), "summary_index": 0}
        match step:
            case Open():
                yield "reasoning_summary_part.added", place | {"part": self._part(step)}
            case Grow():
                yield "reasoning_summary_text.delta", place | {"delta": step.text}
            case Close():
                yield "reasoning_summary_text.done", place | {"text": step.text}
                yield "reasoning_summary_part.done", place | {"part": self._part(step)}

    def _call(self, step: Step) -> Iterator[tuple[str, Told]]:
        place = {"item_id": self.id(step)}
        match step:
            case Grow():
                yield "function_call_arguments.delta", place | {"delta": step.text}
            case Close():
                told = place | {"name": step.block.name, "arguments": step.text}
                yield "function_call_arguments.done", told

    def _part(self, step: Step) -> Told:
        text = step.text if isinstance(step, Close) else ""
        if step.block.kind == "text":
            return {"type": "output_text", "text": text, "annotations": []} | self._scores(step)
        return {"type": "summary_text" if self.summarised else "reasoning_text", "text": text}

    def _scores(self, step: Step) -> Told:
        tokens = () if isinstance(step, Open) or not self.scored else step.tokens
        return {"logprobs": [entry(token) for token in tokens]}
