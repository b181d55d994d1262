"""Progress for people: a bar on a terminal, a line in the log now and then where there is none."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from tqdm import tqdm

from models.progress import DOING, Progress, size

log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between two lines in the log."""


class Display:
    """Shows one thing at a time; called from any thread."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._lock = threading.Lock()
        self._bar: tqdm | None = None
        self._of = ""
        self._told = clock()

    def __call__(self, progress: Progress) -> None:
        """Show a step."""
        with self._lock:
            if self._stream.isatty():
                self._draw(progress)
            elif self._clock() - self._told >= EVERY:
                self._told = self._clock()
                of = "" if progress.phase == "warm-up" else f" of {size(progress.total)}"
                log.info("%s: %.0f %%%s", _named(progress), 100 * progress.fraction, of)

    def _draw(self, progress: Progress) -> None:
        named, bar = _named(progress), self._bar
        if bar is None or self._of != named:
            self.close()
            scale = {} if progress.phase == "warm-up" else {"unit": "B", "unit_scale": True}
            form = "{l_bar}{bar}| {n_fmt}/{total_fmt}" if progress.phase == "warm-up" else None
            bar = tqdm(desc=named, total=progress.total, bar_format=form, leave=False, file=self._stream, **scale)
            self._bar, self._of = bar, named
        bar.total = progress.total
        bar.update(progress.done - bar.n)
        if progress.fraction == 1.0:
            self.close()

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _named(progress: Progress) -> str:
    return f"{DOING[progress.phase]} {progress.what}"
