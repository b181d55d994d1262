"""The client's stop strings: text is held back only while it may still become one of them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


class EmptyStop(ValueError):
    """A stop string without characters would stop every answer before its first word."""

    def __init__(self) -> None:
        super().__init__("a stop string must have at least one character")


@dataclass(slots=True)
class _Node:
    """A prefix of some stop string. `longest` is the length of the longest stop this prefix ends with (0: none)."""

    depth: int = 0
    longest: int = 0
    fallback: int = 0
    next: dict[str, int] = field(default_factory=dict)


class Stops:
    """Cuts a text, pushed in any pieces, before the stop string that is complete first.

    Of several that are complete at the same character the longest wins, so no part of a stop string is shown.
    An automaton after Aho and Corasick (1975): each character is looked at once, however the stops overlap.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        """`strings` may be empty (nothing stops). Raises `EmptyStop` for an empty string."""
        self._nodes = _automaton(strings)
        self._at = 0
        self._held = ""
        self.met: str | None = None
        """The stop string that was met."""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is now safe to show, and whether a stop string was met (then nothing more is ever shown)."""
        if self.met is not None:
            return "", True
        if len(self._nodes) == 1:
            return text, False
        whole = self._held + text
        ended = self._follow(text)
        if ended is not None:
            end = len(self._held) + ended
            start = end - self._nodes[self._at].longest
            self._held, self.met = "", whole[start:end]
            return whole[:start], True
        safe = len(whole) - self._nodes[self._at].depth
        self._held = whole[safe:]
        return whole[:safe], False

    def finish(self) -> str:
        """The text still held back when the model ended without completing a stop string."""
        held, self._held, self._at = self._held, "", 0
        return held

    def _follow(self, text: str) -> int | None:
        """Walk the automaton along `text`; how much of it was read when a stop string was complete, else None."""
        nodes, at = self._nodes, self._at
        for position, char in enumerate(text, 1):
            while at and char not in nodes[at].next:
                at = nodes[at].fallback
            at = nodes[at].next.get(char, 0)
            if nodes[at].longest:
                self._at = at
                return position
        self._at = at
        return None


def _automaton(strings: Sequence[str]) -> list[_Node]:
    nodes = [_Node()]
    for string in strings:
        if not string:
            raise EmptyStop
        at = 0
        for char in string:
            if char not in nodes[at].next:
                nodes[at].next[char] = len(nodes)
                nodes.append(_Node(depth=nodes[at].depth + 1))
            at = nodes[at].next[char]
        nodes[at].longest = len(string)
    waiting = deque(nodes[0].next.values())
    while waiting:
        node = nodes[waiting.popleft()]
        for char, child in node.next.items():
            at = node.fallback
            while at and char not in nodes[at].next:
                at = nodes[at].fallback
            found = nodes[at].next.get(char, 0)
            nodes[child].fallback = found
            nodes[child].longest = nodes[child].longest or nodes[found].longest
            waiting.append(child)
    return nodes
