"""Fields of the Responses API that are not honoured: which are refused, and which have no effect."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from server.api.parameters import Parameters

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "background": (False,),
        "background_options": (),
        "conversation": (),
        "image": (),
        "moderation": (),
        "prompt": (),
    }
)
"""Fields that would change the answer and are not honoured beyond these values; anything else is refused by name."""

WITHOUT_EFFECT = frozenset(
    {
        "access_programs",
        "client_metadata",
        "context_management",
        "max_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "stream_options",
        "user",
    }
)
"""Fields that are accepted and documented, and change nothing here."""

PARAMETERS = Parameters(ONLY, WITHOUT_EFFECT)
