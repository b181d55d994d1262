"""Laguna's dialect, read as it arrives: text in, pieces out, by the table in `tools.dialect`.

The face: `Reader(tools, thinking)`, `push(text)`, `finish(end)`, `fold(pieces)`. How the text is cut never matters.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.attempt import Attempt
from tools.calls import Draft
from tools.dialect import OUTSIDE, TABLE, Act, State
from tools.events import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning, finish_reason, merged
from tools.schema import declared
from tools.tags import ALL_TAGS, WITHOUT_TOOLS, Scanner, Sign

__all__ = [
    "Call",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Message",
    "Piece",
    "Reader",
    "ReaderFinished",
    "Reasoning",
    "finish_reason",
    "fold",
    "thinking_open",
]

_log = logging.getLogger(__name__)

_FINISHING = frozenset({Act.NAMED_ALONE, Act.CALL_END, Act.TURN_END})
"""Acts that complete a call and so leave it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A complete call. `arguments` is the text of one JSON object."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """A whole turn. `reasoning` and `content` are None where the model wrote none."""

    reasoning: str | None
    content: str | None
    calls: tuple[Call, ...]


class ReaderFinished(RuntimeError):
    """Text was pushed into a reader whose turn is over."""

    def __init__(self) -> None:
        super().__init__("the turn is finished: a reader reads one turn only")


def fold(pieces: Iterable[Piece]) -> Message:
    """The answer a stream of pieces adds up to. Calls that never ended are left out: nobody may run them."""
    reasoning: list[str] = []
    content: list[str] = []
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    calls: list[Call] = []
    for piece in pieces:
        match piece:
            case Reasoning(text):
                reasoning.append(text)
            case Content(text):
                content.append(text)
            case CallStart(index, name):
                names[index], arguments[index] = name, []
            case CallArguments(index, fragment):
                arguments[index].append(fragment)
            case CallEnd(index):
                calls.append(Call(names[index], "".join(arguments[index])))
    return Message("".join(reasoning) or None, "".join(content) or None, tuple(calls))


def thinking_open(prompt: str) -> bool:
    """Whether a rendered prompt leaves the model inside `<think>`; only what follows the last `<assistant>` counts."""
    _, opener, tail = prompt.rpartition("<assistant>")
    return bool(opener) and tail.rfind(Sign.THINK) > tail.rfind(Sign.THINK_END)


class Reader:
    """Reads one turn of the model.

    A call that turns out not to be one stays text; inside thinking calls wait until the end of the turn shows that they
    were meant. White space alone is no content beside a call, so it waits for other content.
    """

    def __init__(self, tools: Sequence[object], thinking: bool) -> None:
        """`tools`: OpenAI's tool objects (none: no call is read); `thinking`: the prompt ended inside `<think>`."""
        self._tools = declared(tools)
        self._scanner = Scanner(ALL_TAGS if tools else WITHOUT_TOOLS)
        self._state = State.THOUGHT_START if thinking else State.START
        self._attempt = Attempt(self._tools)
        self._pieces: list[Piece] = []
        self._blanks: list[str] | None = []
        self._index = 0
        self._started = False
        self._complete = 0
        self._unread = self._undeclared = 0
        self._over = False
        self._acts: Mapping[Act, Callable[[str], bool]] = {
            Act.SHOW: self._show,
            Act.REASON: self._reason,
            Act.DROP: self._drop,
            Act.COMMIT: self._commit,
            **self._attempt.acts,
        }

    def push(self, text: str) -> list[Piece]:
        """What `text` makes certain. Raises `ReaderFinished` after `finish`."""
        if self._over:
            raise ReaderFinished
        for sign, part in self._scanner.push(text):
            self._read(sign, part)
        return self._taken()

    @property
    def held(self) -> int:
        """How many characters at the end of what was pushed may still become a tag, and so were not read."""
        return self._scanner.held

    def finish(self, end: Literal["stop", "length"]) -> list[Piece]:
        """What was held back, now that the model (or a stop string) ended the turn, or the token limit cut it."""
        if self._over:
            return []
        self._over = True
        cut = end == "length"
        for sign, part in self._scanner.finish():
            if cut and self._state not in OUTSIDE:
                # What the limit left of a tag is no part of an argument.
                self._attempt.raw.append(part)
            # Where only calls stand, what it left of another `<tool_call>` goes the way of a call it cut.
            elif not (cut and self._state is State.AFTER and Sign.CALL.startswith(part)):
                self._read(sign, part)
        self._read(Sign.LENGTH if cut else Sign.STOP, "")
        if self._blanks and not self._complete:
            self._pieces.append(Content("".join(self._blanks)))
        if self._unread or self._undeclared:
            _log.warning("calls of a turn: %d stayed text, %d name undeclared tools", self._unread, self._undeclared)
        return self._taken()

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return merged(pieces) if len(pieces) > 1 else pieces

    def _read(self, sign: Sign, text: str) -> None:
        """One token through the table. A token that no call can have here is read again, outside the call."""
        step = TABLE[self._state].get(sign)
        if step is None or not self._acts[step.act](text):
            self._abandon(kept=sign is not Sign.LENGTH or not self._complete)
            step = TABLE[self._state][sign]
            self._acts[step.act](text)
        self._state = step.to
        if step.to in OUTSIDE and step.act not in _FINISHING:
            return
        self._attempt.raw.append(text)
        self._follow()

    def _follow(self) -> None:
        """Give out what the call being read has for certain; inside thinking nothing is, before it is meant."""
        attempt = self._attempt
        if attempt.trial:
            self._state = State.HELD if self._state is State.AFTER else self._state
        elif attempt.draft.certain:
            self._give(attempt.draft)

    def _give(self, draft: Draft) -> None:
        if not self._started:
            self._started = True
            self._pieces.append(CallStart(self._index, draft.name))
        fragment = draft.take()
        if fragment:
            self._pieces.append(CallArguments(self._index, fragment))
        if draft.whole:
            self._undeclared += not draft.declared
            self._pieces.append(CallEnd(self._index))
            self._complete += 1
            self._next_index()

    def _next_index(self) -> None:
        if self._started:
            self._index, self._started = self._index + 1, False

    def _abandon(self, *, kept: bool) -> None:
        """What was no call after all is text where it stands, and read as such `</assistant>` ended the turn."""
        attempt = self._attempt
        text, over, _ = "".join(attempt.raw).partition(Sign.TURN_END)
        self._state = State.THOUGHT if attempt.trial else State.ANSWER
        if attempt.trial:
            self._reason(text)
        elif kept:
            self._show(text.replace(Sign.THINK_END, ""))
        if over:
            self._state = State.ENDED
        self._unread += 1
        self._next_index()

    def _show(self, text: str) -> bool:
        if self._blanks is None:
            self._pieces.append(Content(text))
        elif text.isspace():
            self._blanks.append(text)
        else:
            self._pieces.append(Content("".join([*self._blanks, text])))
            self._blanks = None
        return True

    def _reason(self, text: str) -> bool:
        self._pieces.append(Reasoning(text))
        return True

    def _drop(self, _: str) -> bool:
        return True

    def _commit(self, _: str) -> bool:
        for draft in self._attempt.done:
            self._give(draft)
        return True
