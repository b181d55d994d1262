"""uvicorn, stopped within seconds: what still runs is ended by name, and nothing can hold the process back."""

import asyncio
import faulthandler
import os
import signal
import socket
import sys
import threading
from types import FrameType

import uvicorn

from server.engine import Engine
from server.welcome import Welcome

LAST_WORDS = 1.0
"""Seconds that clients get to read how their streams ended, after the grace."""
HARD_STOP = 2.7
"""Seconds after the grace when the process ends whatever it does: within five, at the default grace."""


class DrainingServer(uvicorn.Server):
    """Ends at the first signal in order, at the second one at once."""

    def __init__(self, config: uvicorn.Config, engine: Engine, grace: float, welcome: Welcome) -> None:
        super().__init__(config)
        self._engine = engine
        self._grace = grace
        self._welcome = welcome

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the port once it is open: it may have been chosen by the system."""
        await super().startup(sockets)
        if self.servers:
            self._welcome.listening(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end while uvicorn waits for their connections."""
        draining = asyncio.create_task(self._engine.drain(self._grace))
        await super().shutdown(sockets)
        draining.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks for an orderly end, which is a success; uvicorn would die of it afterwards."""
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        # A C thread that needs neither this one nor the interpreter's lock: a hanging kernel may hold both.
        faulthandler.dump_traceback_later(self._grace + HARD_STOP, exit=True, file=sys.__stderr__ or 2)


def second_signal_ends_at_once() -> None:
    """For what is left after the loop: threads that end, arrays that are freed."""
    if threading.current_thread() is not threading.main_thread():
        return
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, lambda sig, _: os._exit(128 + sig))
