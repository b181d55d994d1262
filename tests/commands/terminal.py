"""A terminal for a process: what it writes is drawn on a screen, and tests read the screen."""

import os
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import pexpect
import pyte

COLUMNS, LINES = 120, 40
PATIENCE = 60.0


class Terminal:
    """A process and its screen, scrolled-out lines included."""

    def __init__(self, child: pexpect.spawn) -> None:
        self.child = child
        self._screen = pyte.HistoryScreen(COLUMNS, LINES, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)

    @property
    def text(self) -> str:
        """What has been drawn, top to bottom."""
        above = ["".join(line[column].data for column in range(COLUMNS)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *self._screen.display])

    def send(self, text: str) -> None:
        """Press keys."""
        self.child.send(text)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read until the screen has this so many times."""
        end = time.monotonic() + PATIENCE
        while self.text.count(text) < times:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.text.strip()}"
            self._read()

    def wait_for_end(self) -> int | None:
        """Read until the process is over; its exit status."""
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, f"it did not end:\n{self.text.strip()}"
        self.child.wait()
        return self.child.exitstatus

    def _read(self) -> bool:
        try:
            self._stream.feed(self.child.read_nonblocking(4096, timeout=1))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        return True


@contextmanager
def terminal(*arguments: str, environment: Mapping[str, str]) -> Generator[Terminal]:
    """`laguna ARGUMENTS` on a terminal of its own."""
    # The editor would ask this terminal where its cursor is, and nobody would answer.
    told = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **environment}
    child = pexpect.spawn(
        sys.executable, ["-m", "server", *arguments], env=told, encoding="utf-8", dimensions=(LINES, COLUMNS)
    )
    try:
        yield Terminal(child)
    finally:
        child.close(force=True)
