"""uvicorn, stopped within seconds: what still runs is ended by name, and nothing can hold the process back."""

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from types import FrameType

import uvicorn

from server.address import base_url
from server.engine import Engine
from server.welcome import Welcome

log = logging.getLogger(__name__)

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
        self._asked_to_stop = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the port once it is open: it may have been chosen by the system. A dead engine had the last word."""
        await super().startup(sockets)
        if self.servers and self._engine.state != "dead":
            port = self.servers[0].sockets[0].getsockname()[1]
            log.info("listening on %s", base_url(self.config.host, port))
            self._welcome.listening(port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end while uvicorn waits for their connections."""
        if self._asked_to_stop:
            log.info("stopping; requests that run have %g s to end", self._grace)
        draining = asyncio.create_task(self._engine.drain(self._grace))
        await super().shutdown(sockets)
        draining.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks for an orderly end, which is a success; uvicorn would die of it afterwards."""
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = self._asked_to_stop = True
        # A C thread that needs neither this one nor the interpreter's lock: a hanging kernel may hold both.
        faulthandler.dump_traceback_later(self._grace + HARD_STOP, exit=True, file=sys.__stderr__ or 2)


def second_signal_ends_at_once() -> None:
    """For what is left after the loop: threads that end, arrays that are freed."""
    if threading.current_thread() is not threading.main_thread():
        return
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, lambda sig, _: os._exit(128 + sig))
