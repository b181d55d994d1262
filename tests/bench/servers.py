"""Servers in processes of their own: ours, and mlx-lm's on the same checkpoint and the same BLAS."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.blas import environment
from tests.bench.client import Body, Heard, chat
from tests.server.process import free_port

START = 120.0
"""Seconds a server has to answer for the first time."""


@dataclass(frozen=True)
class Server:
    """A server that answers at `port` of this machine."""

    command: "Command"
    port: int
    pid: int

    def ask(self, body: Body) -> Heard:
        """One streamed answer."""
        return chat(self.port, {**body, "model": self.command.model})

    def tokens(self, heard: Heard) -> int:
        """Tokens of the answer itself."""
        return heard.tokens - (self.command.counts_stop and heard.finish != "length")


@dataclass(frozen=True)
class Command:
    """How a server is started, and how requests name its model."""

    name: str
    words: tuple[str, ...]
    model: str
    counts_stop: bool = False
    """Its usage counts the id that ended the turn."""


def ours(name: str, checkpoint: Path, *flags: str) -> Command:
    """This project over `checkpoint`."""
    words = (sys.executable, "-m", "server", "serve", "--model", str(checkpoint), "--log-level", "error", *flags)
    return Command(name, words, checkpoint.name)


def mlx_lm(checkpoint: Path, *flags: str) -> Command:
    """mlx-lm's server over the same."""
    words = (sys.executable, "-m", "mlx_lm", "server", "--model", str(checkpoint), "--log-level", "ERROR", *flags)
    return Command("mlx_lm", words, "default_model", counts_stop=True)


@contextmanager
def serving(command: Command, library: Path | None) -> Generator[Server]:
    """Start one, wait until it answers a request, and end it.

    Raises:
        RuntimeError: it ended before it answered, or took too long.
    """
    port = free_port()
    child = subprocess.Popen(
        [*command.words, "--port", str(port)],
        env=environment(library),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _answering(command, port, child)
        yield Server(command, port, child.pid)
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _answering(command: Command, port: int, child: subprocess.Popen[bytes]) -> None:
    """Ask for two tokens until they come."""
    end = time.monotonic() + START
    body = {"model": command.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    while time.monotonic() < end:
        if child.poll() is not None:
            raise RuntimeError(f"{command.name}: ended with status {child.returncode} before it answered")
        if chat(port, body, timeout=30).error is None:
            return
        time.sleep(0.2)
    raise RuntimeError(f"{command.name}: no answer within {START:.0f} seconds")
