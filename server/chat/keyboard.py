"""Where lines come from: an editor with history on a terminal."""

from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from server.chat.slash import COMMANDS


class Keyboard(Protocol):
    """Whatever asks somebody for text."""

    def ask(self, prompt: str) -> str:
        """What was entered.

        Raises:
            EOFError: there is no more.
            KeyboardInterrupt: it was given up.
        """
        ...


class Editor:
    """Lines edited on the terminal, remembered over chats in a file that only its owner may read."""

    def __init__(self, history: Path | None) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=WordCompleter([f"/{name}" for name in COMMANDS], sentence=True),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, *_: "· ".rjust(width),
        )

    def ask(self, prompt: str) -> str:
        """See `Keyboard`."""
        return self._session.prompt(prompt)


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    return FileHistory(file)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        """Send, or go on after a backslash."""
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def go_on(event: KeyPressEvent) -> None:
        """A new line."""
        event.current_buffer.insert_text("\n")

    return keys
