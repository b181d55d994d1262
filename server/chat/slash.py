"""Commands that begin with a slash: what there is, and what a line means."""

from dataclasses import dataclass
from typing import Literal, get_args

Name = Literal["help", "clear", "system", "think", "tokens", "save", "load", "model", "quit"]

COMMANDS: dict[Name, tuple[str, str]] = {
    "help": ("", "this list"),
    "clear": ("", "begin a new conversation; the system prompt stays"),
    "system": ("[TEXT]", "set the system prompt, or show it; `/system -` removes it"),
    "think": ("[on|off|auto]", "let the model think, or not, or as its template has it"),
    "tokens": ("[on|off]", "tint each token by who wrote it"),
    "save": ("FILE", "write the conversation to a file (JSON)"),
    "load": ("FILE", "go on with a conversation from a file"),
    "model": ("[NAME]", "show what is served, or ask for it under another name"),
    "quit": ("", "leave; Ctrl-D does too"),
}
"""Every command: what may follow it, and what it does."""


@dataclass(frozen=True)
class Command:
    """A command and what follows it."""

    name: Name
    argument: str


@dataclass(frozen=True)
class Unknown:
    """A slash, and no command."""

    name: str


def parse(line: str) -> Command | Unknown | None:
    """What a line means; None where it is for the model. A path or a second slash is no command."""
    first, _, rest = line.strip().partition(" ")
    if not first.startswith("/") or "/" in first[1:] or "\n" in first:
        return None
    names = [name for name in get_args(Name) if name == first[1:]]
    return Command(names[0], rest.strip()) if names else Unknown(first)


def switch(argument: str, now: bool) -> bool | None:
    """On or off, the other way where nothing is said; None where something else is."""
    return {"": not now, "on": True, "off": False}.get(argument)
