"""Fields of a dialect that are not honoured: which are refused, which have no effect, and which nobody knows."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from server.errors import UnsupportedParameter

IGNORED = "x-laguna-ignored"
"""The header that names what of a request nobody here knows."""
MOST_IGNORED = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]-]")


@dataclass(frozen=True)
class Parameters:
    """What one dialect does with the fields that it knows and does not honour."""

    only: Mapping[str, tuple[Any, ...]]
    """Fields that would change the answer and are not honoured beyond these values; any other is refused by name."""
    without_effect: frozenset[str]
    """Fields that are accepted and documented, and change nothing here."""

    def refuse_unsupported(self, present: Mapping[str, Any]) -> None:
        """Raises UnsupportedParameter for the first field of `only` with another value than those it may have."""
        for name, allowed in self.only.items():
            if name in present and not any(_same(present[name], value) for value in allowed):
                raise UnsupportedParameter(f"'{name}' is not supported{_except(allowed)}.", param=name)

    def unknown(self, present: Collection[str], honoured: Collection[str]) -> tuple[str, ...]:
        """The fields that are set and that nobody here knows, in the order in which they came."""
        known = (honoured, self.only, self.without_effect)
        return tuple(name for name in present if not any(name in names for names in known))


def _same(value: object, allowed: object) -> bool:
    """Equality that keeps true and 1 apart."""
    return type(value) is type(allowed) and value == allowed


def _except(allowed: tuple[Any, ...]) -> str:
    values = list(dict.fromkeys(str(value) for value in allowed))
    return f" with any other value than {' or '.join(values)}" if values else ""


def told(ignored: Collection[str]) -> dict[str, str]:
    """Their names as a header: at most so many, each cut short, and nothing in them that a header cannot hold."""
    if not ignored:
        return {}
    names = [_UNSAFE.sub("?", name[:60]) or "?" for name in list(ignored)[:MOST_IGNORED]]
    more = ["..."] if len(ignored) > MOST_IGNORED else []
    return {IGNORED: ", ".join([*names, *more])}
