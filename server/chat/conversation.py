"""What was said so far, as values: asking, taking back, keeping in a file."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROLES = ("system", "user", "assistant", "tool")


class NoConversation(ValueError):
    """A file that holds none."""


@dataclass(frozen=True)
class Conversation:
    """Messages as the wire has them, the system prompt apart."""

    messages: tuple[dict[str, Any], ...] = ()
    system: str = ""

    def asked(self, text: str) -> "Conversation":
        """The user said something."""
        return self._with({"role": "user", "content": text})

    def answered(self, message: dict[str, Any]) -> "Conversation":
        """The model did."""
        return self._with(message)

    def returned(self, call_id: str, text: str) -> "Conversation":
        """A tool did."""
        return self._with({"role": "tool", "tool_call_id": call_id, "content": text})

    def cleared(self) -> "Conversation":
        """From the start again, with the same system prompt."""
        return replace(self, messages=())

    def _with(self, message: dict[str, Any]) -> "Conversation":
        return replace(self, messages=(*self.messages, message))

    @property
    def wire(self) -> list[dict[str, Any]]:
        """All messages."""
        return ([{"role": "system", "content": self.system}] if self.system else []) + list(self.messages)

    def save(self, file: Path) -> None:
        """Write it down.

        Raises:
            OSError: it cannot be written.
        """
        file.write_text(json.dumps({"messages": self.wire}, ensure_ascii=False, indent=2) + "\n", "utf-8")


def load(file: Path) -> Conversation:
    """A conversation that was saved; a request's body will do too.

    Raises:
        OSError: it cannot be read.
        NoConversation: it holds something else.
    """
    told = _json(file)
    messages = told.get("messages") if isinstance(told, dict) else None
    if not isinstance(messages, list) or not all(_message(item) for item in messages):
        raise NoConversation(f'{file} holds no conversation: an object with "messages" is wanted')
    system = "\n\n".join(str(item["content"]) for item in messages if item["role"] == "system")
    return Conversation(tuple(item for item in messages if item["role"] != "system"), system)


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise NoConversation(f"{file} is no JSON: {error}") from error


def _message(item: object) -> bool:
    return isinstance(item, dict) and item.get("role") in ROLES


def load_tools(file: Path) -> list[dict[str, Any]]:
    """Tools in OpenAI's form: an array of them, or of bare functions.

    Raises:
        OSError: it cannot be read.
        NoConversation: it holds something else.
    """
    told = _json(file)
    if not isinstance(told, list) or not all(isinstance(tool, dict) for tool in told):
        raise NoConversation(f"{file} holds no array of tools")
    return [tool if tool.get("type") == "function" else {"type": "function", "function": tool} for tool in told]
