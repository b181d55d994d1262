"""Fields that are not honoured: which are refused, which have no effect, and which nobody knows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from server.api.parameters import Parameters

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

PARAMETERS = Parameters(ONLY, WITHOUT_EFFECT)
