"""One call while it is being read: its name, and the JSON text of its arguments as far as nothing can contradict it."""

import re
from collections.abc import Mapping

from tools.schema import Tool
from tools.values import Kind, escaped, quoted

_NAME = re.compile(r"[\w.:/-]+")
_NAME_BEGUN = re.compile(r"[\w.:/-]*\s*")
_LONGEST = 256
"""Characters of an undeclared name or key that are waited for before the text is taken for prose."""

_ANY = Kind()
_MARKS = ("<arg_", "</arg_")


class Names:
    """What the text after `<tool_call>` can be: a declared name, or one spelled as function names are."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        glued = (len(name) + len(key) for name, tool in tools.items() for key in tool.properties)
        self._longest = max([_LONGEST, *glued])
        self._lengths = sorted({len(name) for name in tools})
        self._odd = [name for name in tools if not _NAME.fullmatch(name)]

    def viable(self, text: str) -> bool:
        """Whether a name (or what `split` reads) may begin with `text`. Once False, always False."""
        if len(text) > self._longest:
            return False
        if _NAME_BEGUN.fullmatch(text) or any(name.startswith(text.rstrip()) for name in self._odd):
            return True
        return any(key.startswith(rest) for name, rest in self._glued(text) for key in self._tools[name].properties)

    def whole(self, text: str) -> str | None:
        """The name `text` is, if it is one."""
        name = text.strip()
        return name if name in self._tools or _NAME.fullmatch(name) else None

    def split(self, text: str) -> tuple[str, str] | None:
        """A declared name and one of its arguments between which the `<arg_key>` was forgotten (vllm#47190)."""
        glued = ((name, rest.rstrip()) for name, rest in self._glued(text))
        found = [(name, key) for name, key in glued if key in self._tools[name].properties]
        return max(found, key=lambda pair: len(pair[0]), default=None)

    def _glued(self, text: str) -> list[tuple[str, str]]:
        heads = [text[:length] for length in self._lengths if length <= len(text)]
        return [(name, text[len(name) :].lstrip()) for name in heads if name in self._tools]


class Value:
    """The text of one argument on its way to JSON."""

    def __init__(self, kind: Kind, *, streams: bool) -> None:
        self._kind = kind
        self._state = kind.opening("") if streams else "whole"
        self._head = ""
        self._parts: list[str] = []
        self._begun = False

    @property
    def certain(self) -> bool:
        """Whether the value is a string already, so that its text may be sent as it comes."""
        return self._state == "string"

    def write(self, text: str) -> str:
        """Take further text; returns the JSON text that is now certain."""
        if self._state == "open":
            # One blank stands for all leading ones, so that a flood of them is not looked at again and again.
            self._head = (self._head if self._head.strip() else self._head[:1]) + text
            self._state = self._kind.opening(self._head)
        self._parts.append(text)
        return self._flushed() if self._state == "string" else ""

    def close(self) -> str:
        """The rest of the JSON text."""
        return self._flushed() + '"' if self._state == "string" else self._kind.read("".join(self._parts))

    def _flushed(self) -> str:
        text = escaped("".join(self._parts))
        self._parts.clear()
        opener, self._begun = "" if self._begun else '"', True
        return opener + text


class Draft:
    """A call being read: what is known of its name, its keys and the JSON text of its arguments."""

    def __init__(self, name: str, tool: Tool | None) -> None:
        """`tool` is what the request declares under this name; None if it declares nothing."""
        self.name = name
        self.whole = False
        self.certain = False
        """Whether a declared tool's string is being written, or the call is whole: `take` may then be given out."""
        self._tool = tool
        self._declared = tool.properties if tool else {}
        self._longest = max(_LONGEST, tool.longest_key + 2 if tool else 0)
        self._keys: set[str] = set()
        self._key = ""
        self._value = Value(_ANY, streams=False)
        self._unsent: list[str] = []

    @property
    def declared(self) -> bool:
        """Whether the request declares the tool."""
        return self._tool is not None

    @property
    def satisfied(self) -> bool:
        """Whether every argument that a declared tool requires was written."""
        return self._tool is not None and self._tool.required <= self._keys

    @property
    def key_blank(self) -> bool:
        """Whether nothing but white space of the key came yet."""
        return not self._key.strip()

    def write_key(self, text: str) -> bool:
        """Take further text of the key; False once it is longer than any key that is waited for."""
        self._key += text
        return len(self._key) <= self._longest

    def end_key(self) -> bool:
        """The key is whole; False if it cannot be one. White space around it stays only where it is declared so."""
        if self._key not in self._declared:
            self._key = self._key.strip()
        return (self._key in self._declared or bool(self._key)) and not any(mark in self._key for mark in _MARKS)

    def begin_value(self, *, streams: bool) -> None:
        """The key's value begins; it is certain only at its end unless it `streams`."""
        self._value = Value(self._tool.kind(self._key) if self._tool else _ANY, streams=streams)
        if not self._again:
            self._unsent.append((", " if self._keys else "{") + quoted(self._key) + ": ")

    def write(self, text: str) -> None:
        """Take further text of the value."""
        if self._again:
            return
        self._unsent.append(self._value.write(text))
        self.certain = self.certain or (self.declared and self._value.certain)

    def end_value(self) -> None:
        """The value is whole, and a new key may begin."""
        if not self._again:
            self._unsent.append(self._value.close())
            self._keys.add(self._key)
        self._key = ""

    def end(self) -> None:
        """The call is whole."""
        self._unsent.append("}" if self._keys else "{}")
        self.whole = self.certain = True

    def take(self) -> str:
        """The JSON text of the arguments since the last time."""
        text = "".join(self._unsent)
        self._unsent.clear()
        return text

    @property
    def _again(self) -> bool:
        """Whether the key came before: the first value counts, as it may have been given out already."""
        return self._key in self._keys
