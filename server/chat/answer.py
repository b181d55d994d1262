"""One answer as it comes: lines of a stream to what they say, and the message that they add up to."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Tokens = tuple[tuple[str, str], ...]
"""The tokens of a text, each with who wrote it, where that was asked for and told."""


class AnswerFailed(Exception):
    """The server refused, or ended the stream with an error; the message is the server's."""


@dataclass(frozen=True)
class Thought:
    """Text of the thinking."""

    text: str
    tokens: Tokens = ()


@dataclass(frozen=True)
class Said:
    """Text of the answer."""

    text: str
    tokens: Tokens = ()


@dataclass(frozen=True)
class Called:
    """A call of a tool begins."""

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class Argued:
    """A fragment of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True)
class Over:
    """The end: why, what it counted, and what speculation did."""

    reason: str
    usage: dict[str, Any] = field(default_factory=dict)
    laguna: dict[str, Any] = field(default_factory=dict)


Event = Thought | Said | Called | Argued | Over


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of a body. Only a line feed ends one: other separators may stand in the text of an answer."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode().rstrip("\r") for line in whole)
    if rest:
        yield rest.decode()


def events(lines: Iterable[str]) -> Iterator[Event]:
    """What the lines of a stream say, `Over` last.

    Raises:
        AnswerFailed: an error came, or the stream ended without its end.
    """
    reason, usage, laguna, whole = "", {}, {}, False
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            whole = True
            break
        chunk = json.loads(data)
        if "error" in chunk:
            raise AnswerFailed(chunk["error"]["message"])
        usage, laguna = chunk.get("usage") or usage, chunk.get("laguna") or laguna
        for choice in chunk["choices"]:
            reason = choice["finish_reason"] or reason
            yield from _delta(choice)
    if not whole:
        raise AnswerFailed("the connection was cut before the answer ended")
    yield Over(reason, usage, laguna)


def _delta(choice: dict[str, Any]) -> Iterator[Event]:
    delta = choice["delta"]
    tokens = tuple((text, writer) for text, writer in (choice.get("laguna") or {}).get("tokens", ()))
    if thought := delta.get("reasoning_content") or delta.get("reasoning"):
        yield Thought(thought, _of(thought, tokens))
    if said := delta.get("content"):
        yield Said(said, _of(said, tokens))
    for call in delta.get("tool_calls") or ():
        function = call.get("function", {})
        if "name" in function:
            yield Called(call["index"], call["id"], function["name"])
        if function.get("arguments"):
            yield Argued(call["index"], function["arguments"])


def _of(text: str, tokens: Tokens) -> Tokens:
    """The tokens, if they are those of this text."""
    return tokens if "".join(token for token, _ in tokens) == text else ()


@dataclass(frozen=True)
class Call:
    """A whole call."""

    id: str
    name: str
    arguments: str


@dataclass
class Answer:
    """What was said so far; the stream may be left at any moment."""

    reasoning: str = ""
    content: str = ""
    over: Over | None = None
    _begun: dict[int, Call] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Thought(text):
                self.reasoning += text
            case Said(text):
                self.content += text
            case Called(index, id_, name):
                self._begun[index] = Call(id_, name, "")
            case Argued(index, text):
                call = self._begun[index]
                self._begun[index] = Call(call.id, call.name, call.arguments + text)
            case Over():
                self.over = event

    @property
    def calls(self) -> list[Call]:
        """The calls that may be answered: none of an answer that was cut, by whomever."""
        called = self.over is not None and self.over.reason == "tool_calls"
        return list(self._begun.values()) if called else []

    @property
    def message(self) -> dict[str, Any] | None:
        """The assistant's message for the history, its thinking included; None where nothing was said."""
        if not (self.content or self.calls):
            return None
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        return message
