"""Everything a generation can say, in no vendor's dialect, and the answer it adds up to."""

from dataclasses import dataclass
from typing import Literal

from tools.events import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning
from tools.laguna import Message

__all__ = [
    "Answer",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "FinishReason",
    "Finished",
    "Piece",
    "Reasoning",
    "Report",
    "Usage",
]

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn; the answer's end at the stop, whatever was decoded beyond it."""

    prompt: int
    completion: int
    reasoning: int
    """Those of `completion` whose text was shown as reasoning."""
    cached: int

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Report:
    """What speculation did for one turn."""

    rounds: int
    drafted: int
    accepted: int
    prefill_seconds: float
    decode_seconds: float
    cached_tokens: int
    speculation_off: str | None
    """Why nothing was drafted, or None."""


@dataclass(frozen=True)
class Finished:
    """The last event of every generation that did not fail."""

    reason: FinishReason
    usage: Usage
    report: Report


Event = Piece | Finished


@dataclass(frozen=True)
class Answer:
    """A whole turn: the fold of its events."""

    message: Message
    finished: Finished
