"""Fields of Anthropic's API that are not honoured: which are refused, and which have no effect."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from server.api.parameters import Parameters

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "container": (),
        "mcp_servers": ([],),
        "compaction": (),
        "thread": (),
        "output_format": (),
    }
)
"""Fields that would change the answer and are not honoured beyond these values; anything else is refused by name."""

WITHOUT_EFFECT = frozenset(
    {
        "betas",
        "billing_policy",
        "cache_control",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "metadata",
        "speed",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields that are accepted and documented, and change nothing here."""

PARAMETERS = Parameters(ONLY, WITHOUT_EFFECT)
