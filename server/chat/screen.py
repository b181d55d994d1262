"""What of an answer is shown, and how: thinking dimmed, calls on lines of their own, tokens tinted where asked for."""

from collections.abc import Mapping
from typing import assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from server.chat.answer import Argued, Called, Event, Over, Said, Thought, Tokens
from server.chat.slash import COMMANDS

TINTS: Mapping[str, str] = {
    "target": "",
    "speculator": "green",
    "prediction": "magenta",
    "copy": "yellow",
    "grammar": "blue",
}
"""The colour of a token by who drafted it; the target's own have none."""

THINKING = "dim italic"
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def plain(text: str) -> str:
    """Text without control characters: what a model writes must not steer the terminal."""
    return text.translate(_CONTROLS)


class Screen:
    """Writes answers to one console and remarks to another, which may be the same terminal."""

    def __init__(self, console: Console, notes: Console, *, bare: bool = False) -> None:
        """With `bare`, thinking is left out: the answer goes to a file or another program."""
        self._console = console
        self._notes = notes
        self._bare = bare
        self._last: type[Event] | None = None
        self._at_start = True

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._bare and isinstance(event, Thought):
            return
        if self._last is not None and self._parts(event):
            self.end_line()
        self._last = type(event)
        match event:
            case Thought(text, tokens):
                self._text(text, tokens, THINKING)
            case Said(text, tokens):
                self._text(text, tokens, "")
            case Called(_, _, name):
                self._write(f"→ {name} ", "bold cyan")
            case Argued(_, text):
                self._write(text, "cyan")
            case Over():
                self.end_line()
                self._last = None
            case _ as never:
                assert_never(never)

    def _parts(self, event: Event) -> bool:
        """Whether a new line begins with it."""
        return isinstance(event, Called) or (type(event) is not self._last and not isinstance(event, Argued))

    def _text(self, text: str, tokens: Tokens, style: str) -> None:
        for part, writer in tokens or ((text, "target"),):
            self._write(part, f"{style} {TINTS.get(writer, 'red')}".strip())

    def _write(self, text: str, style: str) -> None:
        shown = plain(text)
        if shown:
            self._console.out(shown, style=style or None, end="", highlight=False)
            self._at_start = shown.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line, unless the last one is empty."""
        if not self._at_start:
            self._console.out("")
        self._at_start = True

    def note(self, text: str) -> None:
        """Something about the chat, not of it."""
        self.end_line()
        self._remark(text, "dim")

    def error(self, text: str) -> None:
        """Something went wrong."""
        self.end_line()
        self._remark(text, "red")

    def _remark(self, text: str, style: str) -> None:
        # On a terminal lines break between words; in a file they are as long as they are.
        self._notes.print(Text(plain(text), style), soft_wrap=not self._notes.is_terminal)

    def help(self) -> None:
        """The commands, and the keys."""
        self.end_line()
        commands = Table.grid(padding=(0, 2))
        commands.add_column(no_wrap=True)
        for name, (argument, does) in COMMANDS.items():
            commands.add_row(Text(f"/{name} {argument}", "dim"), Text(does, "dim"))
        self._notes.print(commands)
        self.note("Enter sends; Alt-Enter, Ctrl-J or a backslash and Enter begin a new line; Ctrl-C stops an answer")

    def legend(self) -> None:
        """Which colour is whose."""
        self._notes.out("tokens: ", style="dim", end="", highlight=False)
        for writer, tint in TINTS.items():
            self._notes.out(f"{writer} ", style=tint or None, end="", highlight=False)
        self._notes.out("")


def summary(over: Over) -> str:
    """The figures of an answer in a line."""
    usage, laguna = over.usage, over.laguna
    written, seconds = usage.get("completion_tokens", 0), laguna.get("decode_seconds", 0)
    told = [f"{written} tokens"]
    if seconds:
        told.append(f"{written / seconds:.0f} a second")
    if "prefill_seconds" in laguna:
        cached = laguna.get("cached_tokens", 0)
        told.append(f"{usage.get('prompt_tokens', 0)} read in {laguna['prefill_seconds']:.2f} s ({cached} were kept)")
    if laguna.get("drafted"):
        told.append(f"{laguna['accepted']} of {laguna['drafted']} drafts accepted in {laguna['rounds']} rounds")
    elif laguna.get("speculation_off"):
        told.append(f"no drafts: {laguna['speculation_off']}")
    if over.reason == "length":
        told.append("cut at the token limit")
    return " · ".join(told)
