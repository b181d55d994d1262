"""Fields that are not honoured: which are refused, which have no effect, and which nobody knows."""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from server.errors import UnsupportedParameter

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "functions": ([],),
        "function_call": ("none",),
        "modalities": (["text"],),
        "moderation": (),
        "audio": (),
        "verbosity": ("medium",),
        "web_search_options": (),
    }
)
"""Fields that would change the answer and are not honoured beyond these values; anything else is refused by name."""

WITHOUT_EFFECT = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "repetition_context_size",
        "safety_identifier",
        "store",
        "user",
    }
)
"""Fields that are accepted and documented, and change nothing here."""

IGNORED = "x-laguna-ignored"
"""The header that names the fields of a request that nobody here knows."""
MOST_IGNORED = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]-]")


def refuse_unsupported(present: Mapping[str, Any]) -> None:
    """Raises UnsupportedParameter for the first field of `ONLY` with another value than those it may have."""
    for name, allowed in ONLY.items():
        if name in present and not any(_same(present[name], value) for value in allowed):
            raise UnsupportedParameter(f"'{name}' is not supported{_except(allowed)}.", param=name)


def _same(value: object, allowed: object) -> bool:
    """Equality that keeps true and 1 apart."""
    return type(value) is type(allowed) and value == allowed


def _except(allowed: tuple[Any, ...]) -> str:
    values = list(dict.fromkeys(str(value) for value in allowed))
    return f" with any other value than {' or '.join(values)}" if values else ""


def unknown(present: Collection[str], honoured: Collection[str]) -> tuple[str, ...]:
    """The fields that are set and that nobody here knows, in the order in which they came."""
    return tuple(name for name in present if name not in honoured and name not in ONLY and name not in WITHOUT_EFFECT)


def told(ignored: Collection[str]) -> dict[str, str]:
    """Their names as a header: at most so many, each cut short, and nothing in them that a header cannot hold."""
    if not ignored:
        return {}
    names = [_UNSAFE.sub("?", name[:60]) or "?" for name in list(ignored)[:MOST_IGNORED]]
    more = ["..."] if len(ignored) > MOST_IGNORED else []
    return {IGNORED: ", ".join([*names, *more])}
