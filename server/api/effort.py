"""How much to think, in OpenAI's words."""

from typing import Literal

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def thinks(effort: Effort) -> bool:
    """Laguna knows thinking as on or off only."""
    return effort not in ("none", "minimal")
