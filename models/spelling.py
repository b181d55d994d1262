"""What messages spell is text: a special token is only what the template wrote.

Where a message spells one, a mark that nobody else uses goes into its middle before the template is rendered, so that
template text and message text can be told apart afterwards; the mark is gone before anything is encoded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from models.messages import TemplateError

RAW = "render_assistant_messages_raw"
"""The template argument with which assistants' contents are whole turns, markers and all."""

_PRIVATE = range(0xE000, 0xF900)
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")
_OWN_THINKING = re.compile(r"(\s*<think>)(.*?)(</think>)", re.DOTALL)


@dataclass(frozen=True)
class Rendered:
    """A prompt as the template wrote it."""

    marked: str
    """Its text, with the mark in the middle of every special token that a message spells."""
    mark: str = ""
    """One character, or nothing where no message spells any."""

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.between(0, len(self.marked))

    def between(self, start: int, stop: int) -> str:
        """What it reads of the characters `start..stop` of `marked`."""
        part = self.marked[start:stop]
        return part.replace(self.mark, "") if self.mark else part


class Spellings:
    """How the special tokens of one vocabulary are written."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """`tokens` may be none; those of a single character cannot be told apart, and are left out."""
        told = sorted({token for token in tokens if len(token) > 1})
        either = "|".join(map(re.escape, told)) or "(?!)"
        self._any = re.compile(either)
        # Tokens may overlap, and each has to be broken.
        self._starts = re.compile(f"(?={either})")

    def mark(self, *values: object) -> str:
        """A mark for `values`, of strings in mappings and lists; "" where they spell nothing.

        Raises:
            TemplateError: every character for private use is taken.
        """
        if not any(self._any.search(text) for text in _strings(values)):
            return ""
        taken: set[str] = set()
        for text in _strings(values):
            taken.update(text)
            # A template may write JSON in ASCII.
            taken.update(chr(int(code, 16)) for code in _ESCAPED.findall(text))
        for code in _PRIVATE:
            if chr(code) not in taken:
                return chr(code)
        raise TemplateError("the messages spell special tokens and use every character for private use")

    def marked(self, value: Any, mark: str) -> Any:  # noqa: ANN401
        """The same value with `mark` in the middle of everything that it spells, keys included."""
        match value:
            case str():
                return self._text(value, mark)
            case Mapping():
                return {self.marked(key, mark): self.marked(item, mark) for key, item in value.items()}
            case list() | tuple():
                return [self.marked(item, mark) for item in value]
        return value

    def marked_messages(self, messages: Sequence[Mapping[str, Any]], mark: str, *, raw: bool) -> list[dict[str, Any]]:
        """Messages as a template takes them, marked; with `raw`, assistants' contents are left as they are.

        Thinking that begins a content, for want of a field of its own, stays thinking.
        """
        return [self._message(message, mark, raw=raw) for message in messages]

    def _message(self, message: Mapping[str, Any], mark: str, *, raw: bool) -> dict[str, Any]:
        told: dict[str, Any] = self.marked(message, mark)
        if message["role"] != "assistant":
            return told
        content: str = message["content"]
        own = None if message.get("reasoning") else _OWN_THINKING.match(content)
        if raw:
            return told | {"content": content}
        if own is None:
            return told
        opens, thoughts, closes = own.groups()
        rest = self._text(content[own.end() :], mark)
        return told | {"content": opens + self._text(thoughts, mark) + closes + rest}

    def _text(self, text: str, mark: str) -> str:
        cuts = [0, *(found.start() + 1 for found in self._starts.finditer(text)), len(text)]
        return mark.join(text[start:stop] for start, stop in pairwise(cuts))


def rendered(text: str, mark: str) -> Rendered:
    """What a template made of marked values."""
    return Rendered(text.replace(f"\\u{ord(mark):04x}", mark) if mark else text, mark)


def _strings(value: object) -> Iterator[str]:
    """Every string in it, keys too."""
    waiting: list[object] = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case Mapping() as mapping:
                waiting += [*mapping.keys(), *mapping.values()]
            case list() | tuple() as items:
                waiting += items
