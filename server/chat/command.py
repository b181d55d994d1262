"""`laguna chat` from settings to exit status."""

import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from server.chat.conversation import Conversation, NoConversation, load_tools
from server.chat.keyboard import Editor, Keyboard
from server.chat.line import HttpLine
from server.chat.screen import Screen
from server.chat.talk import Talk, Wishes
from server.client.reach import Unreachable
from server.client.starting import Say, Wanted, attached
from server.settings import Folders


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    wanted: Wanted
    message: str | None = None
    """One question, without a chat."""
    system: str = ""
    tools: Path | None = None
    think: bool | None = None
    tokens: bool = False
    temperature: float | None = None
    max_tokens: int | None = None


class Nobody:
    """There is nobody to ask."""

    def ask(self, prompt: str) -> str:
        """See `Keyboard`."""
        raise EOFError


def run(asked: Asked) -> int:
    """Chat, or answer one question: the one given, or what comes in where that is no terminal.

    Returns:
        1 where no server can be had or the one question is not answered, else 0.
    """
    notes = Console(stderr=True)
    try:
        tools = () if asked.tools is None else tuple(load_tools(asked.tools))
        with _waiting(notes) as say, attached(asked.wanted, say) as served, closing(HttpLine(served)) as line:
            say("")
            wishes = Wishes(served.model, asked.think, asked.tokens, asked.temperature, asked.max_tokens, tools)
            once = _question(asked)
            console = Console()
            screen = Screen(console, notes, bare=once is not None and not console.is_terminal)
            keyboard: Keyboard = Nobody() if once is not None else _editor()
            talk = Talk(line, served, screen, keyboard, wishes)
            talk.conversation = Conversation(system=asked.system)
            if once is not None:
                return 0 if talk.turn(once) else 1
            screen.note(f"{served.model} at {served.url}; /help lists the commands")
            talk.run()
            return 0
    except (Unreachable, NoConversation, OSError) as error:
        notes.print(str(error), style="red", markup=False, highlight=False)
        return 1


def _question(asked: Asked) -> str | None:
    if asked.message is not None:
        return asked.message
    return None if sys.stdin.isatty() else sys.stdin.read()


def _editor() -> Keyboard:
    return Editor(Folders().xdg_state_home.expanduser() / "laguna" / "history")


@contextmanager
def _waiting(console: Console) -> Generator[Say]:
    """A line that changes on a terminal, and lines elsewhere; nothing is waited for after an empty one."""
    if not console.is_terminal:
        yield lambda text: console.out(text, highlight=False) if text else None
        return
    with console.status("looking for a server") as status:
        yield lambda text: status.update(text) if text else status.stop()
