"""How far a checkpoint is on its way from the hub to the first answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Phase = Literal["download", "load", "warm-up"]

DOING: Mapping[Phase, str] = {"download": "fetching", "load": "loading", "warm-up": "warming up"}
"""What is done in each phase, for people."""


@dataclass(frozen=True)
class Progress:
    """One step of the way: `done` of `total` of `what` (a hub id, or a folder's name); bytes, or ways of warming up."""

    phase: Phase
    what: str
    done: int
    total: int

    @property
    def fraction(self) -> float:
        """0 to 1; 1 where there is nothing to do."""
        return min(1.0, self.done / self.total) if self.total else 1.0


Report = Callable[[Progress], None]
"""Told of each step, on whichever thread takes it. What it raises ends the work: that is how a load is given up."""


def unreported(_: Progress) -> None:
    """Nobody wants to know."""


def size(count: int) -> str:
    """Bytes of files for people: decimal, as disks and downloads are told."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
