"""The tags of the dialect, and a scanner that finds them in a text arriving in any pieces."""

import re
from collections.abc import Iterable
from enum import StrEnum


class Sign(StrEnum):
    """What a piece of the text is: a tag (its value is its spelling), text, white space, or the end of it all."""

    THINK = "<think>"
    THINK_END = "</think>"
    CALL = "<tool_call>"
    CALL_END = "</tool_call>"
    KEY = "<arg_key>"
    KEY_END = "</arg_key>"
    VALUE = "<arg_value>"
    VALUE_END = "</arg_value>"
    TURN_END = "</assistant>"
    TEXT = "text"
    BLANK = "white space"
    STOP = "the model ended its turn"
    LENGTH = "the token limit ended the turn"


ALL_TAGS: tuple[Sign, ...] = tuple(sign for sign in Sign if sign.startswith("<"))
WITHOUT_TOOLS: tuple[Sign, ...] = (Sign.THINK, Sign.THINK_END, Sign.TURN_END)

Token = tuple[Sign, str]


class Scanner:
    """Text in, tokens out; only a last part that is a real prefix of some tag waits (shorter than the longest tag)."""

    def __init__(self, tags: Iterable[Sign]) -> None:
        self._signs = {tag.value: tag for tag in tags}
        self._pattern = re.compile("|".join(re.escape(tag) for tag in self._signs))
        self._prefixes = frozenset(tag[:length] for tag in self._signs for length in range(1, len(tag)))
        self._longest = max(len(tag) for tag in self._signs)
        self._held = ""

    def push(self, text: str) -> list[Token]:
        """The tokens that are now certain. Their texts, in order, are the text pushed so far without what is held."""
        if self._held:
            text, self._held = self._held + text, ""
        elif "<" not in text:
            return [_plain(text)] if text else []
        tokens: list[Token] = []
        start = 0
        for found in self._pattern.finditer(text):
            if found.start() > start:
                tokens.append(_plain(text[start : found.start()]))
            tokens.append((self._signs[found[0]], found[0]))
            start = found.end()
        end = self._certain(text, start)
        if end > start:
            tokens.append(_plain(text[start:end]))
        self._held = text[end:]
        return tokens

    @property
    def held(self) -> int:
        """How many characters of what was pushed wait."""
        return len(self._held)

    def finish(self) -> list[Token]:
        """What was held, as the text it turned out to be."""
        held, self._held = self._held, ""
        return [_plain(held)] if held else []

    def _certain(self, text: str, start: int) -> int:
        """Where a last, unfinished tag may begin; no tag has a `<` but at its start, so only the last one counts."""
        last = text.rfind("<", max(start, len(text) - self._longest))
        return last if last >= 0 and text[last:] in self._prefixes else len(text)


def _plain(text: str) -> Token:
    return (Sign.BLANK if text.isspace() else Sign.TEXT), text
