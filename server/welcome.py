"""What is said once the server can be asked: one panel on a terminal, one line in the log elsewhere."""

import logging
import sys
from typing import TextIO

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from models.memory import gib
from server.address import base_url
from server.served import Model
from server.settings import Settings

log = logging.getLogger(__name__)


USUAL = base_url(*(Settings.model_fields[name].default for name in ("host", "port")))
"""Where the other commands look by themselves."""


def reaching(command: str, url: str) -> str:
    """The command, told where the server is unless it looks there anyway."""
    return command if url == USUAL else f"{command} --url {url}"


def facts(model: Model, settings: Settings, port: int) -> dict[str, str]:
    """What somebody wants to know first, by name."""
    url, off = base_url(settings.host, port), model.speculation_off
    return {
        "address": f"{url}/v1",
        "model": model.id,
        "speculator": f"none: {off}" if off else f"{model.speculator} (speculation: {settings.speculation})",
        "memory": f"{gib(model.room)} for conversations and kept prompts",
        "context": f"{model.context_length} tokens",
        "call it": f"curl {url}/v1/models",
        "talk to it": f"{reaching('laguna chat', url)}, or {url} in a browser",
        "work with it": f"{reaching('laguna launch', url)} opencode|codex|claude|qwen|aider|pool",
    }


class Welcome:
    """Waits for the two things that must be true, in any order, and then speaks once. Belongs to one event loop."""

    def __init__(self, settings: Settings, stream: TextIO | None = None) -> None:
        self._settings = settings
        self._stream = sys.stderr if stream is None else stream
        self._model: Model | None = None
        self._port: int | None = None

    def ready(self, model: Model) -> None:
        """The model is loaded."""
        self._model = model
        self._speak()

    def listening(self, port: int) -> None:
        """The port is open."""
        self._port = port
        self._speak()

    def _speak(self) -> None:
        if self._model is None or self._port is None:
            return
        told = facts(self._model, self._settings, self._port)
        if self._stream.isatty():
            Console(file=self._stream).print(panel(told))
        else:
            log.info("%s", "; ".join(f"{name}: {value}" for name, value in list(told.items())[:5]))


def panel(told: dict[str, str]) -> Panel:
    """The facts in a frame."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in told.items():
        # Text: brackets in a name are no markup.
        grid.add_row(name, Text(value, style="bold cyan" if name == "address" else ""))
    return Panel(grid, title="laguna", border_style="cyan", expand=False)
