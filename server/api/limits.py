"""How much one request may hold: far more than any client asks for, and little enough to be checked at once."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from server.errors import TooDeep, TooMany

DEPTH = 128
"""Arrays and objects inside one another."""
MOST: Mapping[str, int] = MappingProxyType({"messages": 10_000, "input": 10_000, "tools": 1024})
"""Items of a list, by the name of its field."""
PARTS = 4096
"""Content parts of one message."""


def bounded(body: Mapping[str, Any]) -> None:
    """Nothing, where a parsed body keeps within the limits.

    Raises:
        TooDeep, TooMany: it does not.
    """
    if deeper(body, DEPTH):
        raise TooDeep(f"The JSON body of your request is nested more than {DEPTH} levels deep.")
    for name, most in MOST.items():
        _count(body.get(name), most, name)
    for name in ("messages", "input"):
        for index, message in enumerate(_items(body.get(name))):
            if isinstance(message, dict):
                _count(message.get("content"), PARTS, f"{name}[{index}].content")


def deeper(value: object, levels: int) -> bool:
    """Whether more arrays and objects than `levels` are inside one another."""
    around: list[object] = [value]
    for _ in range(levels):
        around = [inner for outer in around if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not around:
            return False
    return True


def _inside(value: dict[str, object] | list[object]) -> Iterable[object]:
    # A string may be long and has nothing inside: only what can be nested goes on.
    inner = value.values() if isinstance(value, dict) else value
    return [item for item in inner if isinstance(item, dict | list)]


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _count(value: object, most: int, param: str) -> None:
    count = len(_items(value))
    if count > most:
        raise TooMany(f"'{param}' has {count} items, and at most {most} are read.", param=param)
