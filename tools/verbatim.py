"""The reader of an answer that is nothing but text: no thinking, no calls, every marker as it was written."""

from typing import Literal

from tools.events import Content, Piece


class Verbatim:
    """Takes the place of `tools.laguna.Reader` where the prompt was not a conversation."""

    held = 0
    """Characters kept back: never any."""

    def push(self, text: str) -> list[Piece]:
        """The text, as it is."""
        return [Content(text)] if text else []

    def finish(self, _: Literal["stop", "length"]) -> list[Piece]:
        """Nothing: however it ended, all was said."""
        return []
