"""When the engine's thread passes and when its rounds end, and what it means that it has not passed for long."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Condition = Literal["well", "hung", "lost"]

LOST = 2
"""So many times the limit without a sign of life, and none is expected any more."""


def judged(seconds: float | None, limit: float) -> Condition:
    """What to think of a thread whose pass under way has taken so many seconds; None: it rests, with nothing to do."""
    if seconds is None or seconds <= limit:
        return "well"
    return "hung" if seconds <= LOST * limit else "lost"


@dataclass
class Pulse:
    """Signs of life, in monotonic seconds: written by the thread, read by whoever asks after its health."""

    clock: Callable[[], float] = time.monotonic
    """Stands still while the machine sleeps."""
    passing: float | None = None
    """When the pass under way began, with its round if it has one; None while nobody wants anything of the thread."""
    began: float | None = None
    """When the round under way began; None while there is none."""
    ended: float | None = None
    """When the last round ended; None before the first one's end."""
    kept: int = 0
    """Bytes of the caches of earlier prompts."""
    parked: int = 0
    """Running requests that wait, without caches, until there is memory for them."""

    def since(self, moment: float | None) -> float | None:
        """Seconds from then to now."""
        return None if moment is None else self.clock() - moment
