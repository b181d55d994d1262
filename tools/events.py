"""Everything that can happen while Laguna speaks, as frozen values: a stream renders them, an answer is their fold."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text, who wrote it, and how likely it was."""

    text: str
    """What of the text it wrote; empty while a character waits for the bytes of the next token."""
    data: bytes
    """Its bytes, as far as they are part of the text."""
    logprob: float = math.nan
    """Natural logarithm; NaN, which no JSON can hold, where it was not asked for."""
    likeliest: tuple[tuple[bytes, float], ...] = ()
    """The bytes of whole tokens and their logarithms, likeliest first."""
    writer: str = "target"
    """The source of an accepted draft, or the target itself."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text the model wrote while thinking."""

    text: str
    tokens: tuple[Token, ...] = ()
    """Where that was asked for, the tokens of this text: their texts join to it."""


@dataclass(frozen=True, slots=True)
class Content:
    """Text the model wrote to the user."""

    text: str
    tokens: tuple[Token, ...] = ()
    """Where that was asked for, the tokens of this text: their texts join to it."""


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins. `index` counts the calls of a turn from 0; `name` is whole and said once."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A further part of the JSON text of a call's arguments."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete: its fragments, joined, are one JSON object. A call without this end must never be run."""

    index: int
    tokens: tuple[Token, ...] = ()
    """Where that was asked for, what was written in the model's own dialect from what was shown before up to here."""


Piece = Reasoning | Content | CallStart | CallArguments | CallEnd


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pieces with neighbours of one kind (and one call) joined, so that a long push makes few frames."""
    whole: list[Piece] = []
    run: list[Piece] = []
    for piece in pieces:
        if run and not _continues(run[-1], piece):
            whole.append(_joined(run))
            run = []
        run.append(piece)
    return [*whole, _joined(run)] if run else whole


def finish_reason(end: Literal["stop", "length"], complete_calls: int) -> Literal["stop", "length", "tool_calls"]:
    """OpenAI's `finish_reason`: the token limit wins, then `tool_calls` exactly when a call is complete."""
    if end == "length":
        return "length"
    return "tool_calls" if complete_calls else "stop"


def _continues(last: Piece, piece: Piece) -> bool:
    match last, piece:
        case (Reasoning(), Reasoning()) | (Content(), Content()):
            return True
        case CallArguments(index=before), CallArguments(index=after):
            return before == after
        case _:
            return False


def _text(piece: Piece) -> str:
    match piece:
        case Reasoning(text) | Content(text):
            return text
        case CallArguments(_, fragment):
            return fragment
        case _:
            return ""


def _tokens(run: list[Piece]) -> tuple[Token, ...]:
    return tuple(token for piece in run if isinstance(piece, Reasoning | Content) for token in piece.tokens)


def _joined(run: list[Piece]) -> Piece:
    if len(run) == 1:
        return run[0]
    text = "".join(map(_text, run))
    match run[0]:
        case Reasoning():
            return Reasoning(text, _tokens(run))
        case Content():
            return Content(text, _tokens(run))
        case CallArguments(index, _):
            return CallArguments(index, text)
        case piece:
            return piece
