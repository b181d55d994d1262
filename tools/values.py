"""The JSON value of an argument's bare text: Laguna writes values without quotes or types, so the schema decides.

JSON text is passed on as the model spelled it: nothing is parsed and written again, so no digit or key is lost.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

_STRINGS = json.JSONEncoder(ensure_ascii=False)
_LARGEST_EXACT = 2**53
"""Integers up to here are exact as floats, so `5.0` or `1e3` may be read as an integer."""

_PYTHON = re.compile(
    r"""'(?:[^'\\]++|\\.|\\\Z)*+(?:'|\Z) | "(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z) | \b(?:True|False|None)\b""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Mapping[str, str] = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = re.compile(r'\\(.)|"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Kind:
    """The JSON types an argument may have (None: the schema does not say), and its only values, where listed."""

    types: frozenset[str] | None = None
    members: tuple[object, ...] | None = None

    def opening(self, head: str) -> Literal["string", "whole", "open"]:
        """What a value that begins with `head` is.

        "string": the text itself, whatever follows, so that it may be sent as it comes; "whole": only the whole text
        can tell; "open": not known yet. Once it is one of the first two, more text does not change it.
        """
        if self.types == {"string"}:
            return "string"
        if not self._text_allowed or self.members is not None:
            return "whole"
        if self._allows("null") and "null".startswith(head):
            return "open"
        first = head.lstrip()[:1]
        if not first:
            return "open" if self._starters else "string"
        return "whole" if first in self._starters else "string"

    def read(self, text: str) -> str:
        """The JSON text of the value written as `text`. What does not fit the types stays a string."""
        if self.types == {"string"}:
            return quoted(text)
        bare = text.strip()
        if self.members is not None:
            if text in self.members:
                return quoted(text)
            for value in map(_parsed, _spellings(bare)):
                meant = [member for member in self.members if _same(value, member)]
                if meant:
                    return json.dumps(meant[0], ensure_ascii=False)
        if self._text_allowed:
            return self._beside_string(text, bare)
        for spelling in _spellings(bare):
            fitting = self._fitting(spelling)
            if fitting is not None:
                return fitting
        return quoted(text)

    @property
    def _text_allowed(self) -> bool:
        return self.types is None or "string" in self.types

    @property
    def _starters(self) -> str:
        """The first characters of values that are not strings although a string would be allowed."""
        return ("{" if self._contains("object") else "") + ("[" if self._contains("array") else "")

    def _contains(self, name: str) -> bool:
        return self.types is None or name in self.types

    def _allows(self, name: str) -> bool:
        return self.types is not None and name in self.types

    def _beside_string(self, text: str, bare: str) -> str:
        """Where a string is allowed too, only a permitted `null`, object or array is not the string."""
        if text == "null" and self._allows("null"):
            return "null"
        if bare[:1] and bare[0] in self._starters and isinstance(_parsed(bare), (dict, list)):
            return bare
        return quoted(text)

    def _fitting(self, spelling: str) -> str | None:
        """`spelling`, if it is JSON of an allowed type; an integer may be written as an integral float."""
        match _parsed(spelling):
            case bool():
                return spelling if self._allows("boolean") else None
            case None:
                return spelling if self._allows("null") else None
            case int():
                return spelling if self._allows("integer") else None
            case float() as value:
                if self._allows("number"):
                    return spelling
                exact = self._allows("integer") and value.is_integer() and abs(value) <= _LARGEST_EXACT
                return str(int(value)) if exact else None
            case dict():
                return spelling if self._allows("object") else None
            case list():
                return spelling if self._allows("array") else None
            case _:
                return None


def quoted(text: str) -> str:
    """`text` as a JSON string, characters beyond ASCII as they are."""
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string. Escaping parts and joining them escapes the whole."""
    return _STRINGS.encode(text)[1:-1]


@dataclass(frozen=True, slots=True)
class _NotJson:
    """Stands for the value of a text that is no JSON, since None is a value."""


def _parsed(text: str) -> object:
    """The value of strict JSON text; `_NotJson` for all else, also for numbers no double or digit limit can hold."""
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refused)
    except (ValueError, RecursionError):
        return _NotJson()


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits} is beyond the range of a double")
    return value


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _same(value: object, member: object) -> bool:
    """Equal as JSON values: true is not 1, while 1 and 1.0 are one number."""
    return isinstance(value, bool) == isinstance(member, bool) and value == member


def _spellings(text: str) -> Iterator[str]:
    """The text as it is, then with Python's spellings of JSON values (True, False, None, single quotes) respelled."""
    yield text
    yield _PYTHON.sub(lambda found: _respelled(found[0]), text)


def _respelled(token: str) -> str:
    if token in _WORDS:
        return _WORDS[token]
    if token[0] == '"':
        return token
    return '"' + _ESCAPES.sub(_escape, token[1:-1]) + '"' if token[-1] == "'" and len(token) > 1 else token


def _escape(found: re.Match[str]) -> str:
    if found[0] == '"':
        return '\\"'
    return "'" if found[1] == "'" else found[0]
