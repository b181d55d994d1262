"""An event loop that does not wait: where it would sleep, the time passes at once."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TypeVar, TypeVarTuple

Told = TypeVar("Told")
Given = TypeVarTuple("Given")


class Skipping(selectors.DefaultSelector):
    """Where a loop would sleep until its next timer, the time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """A loop on its selector's clock, which counts how often a thread wakes it."""

    def __init__(self) -> None:
        self.woken = 0
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def call_soon_threadsafe(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)

    def time(self) -> float:
        return self.skipping.now


def run(scene: Callable[[], Awaitable[Told]]) -> Told:
    """What the scene returns, played on such a loop."""
    loop = Loop()
    try:
        return loop.run_until_complete(scene())
    finally:
        loop.close()
