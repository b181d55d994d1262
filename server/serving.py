"""Running the application under uvicorn until somebody stops it."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import uvicorn
from fastapi import FastAPI

from models.loading import Loading
from models.runtime import load_runtime
from server.address import try_address
from server.app import create_app
from server.arrival import Arrival
from server.backend import Pair
from server.display import Display
from server.door.bounds import HEAD_BYTES
from server.door.connection import Patience, patient
from server.door.keys import UnsafeSettings
from server.engine import Engine
from server.loading import loading
from server.logs import configure
from server.settings import Settings
from server.warming import warm
from server.welcome import Welcome

log = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """uvicorn, but what still runs when a signal comes is ended by name instead of being cut."""

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


def configured(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """uvicorn as this server wants it."""
    patience = Patience(settings.max_connections, settings.upload_timeout, settings.stall_timeout)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level,
        # The door tells of requests, and all lines have one form.
        access_log=False,
        log_config=None,
        http=patient(patience),
        h11_max_incomplete_event_size=HEAD_BYTES,
        ws="none",
        # Longer than the grace: this cuts connections, and only those that did not heed it.
        timeout_graceful_shutdown=round(settings.shutdown_grace) + 3,
    )


def serve_forever(settings: Settings) -> int:
    """Load the checkpoint that the settings name and serve it; see `run`."""
    arrival = Arrival(Display())
    chosen = replace(loading(settings), report=arrival.report)
    return run(settings, partial(_warmed, settings, chosen), arrival)


def _warmed(settings: Settings, chosen: Loading) -> Pair:
    """Load the pair and run it once, on the thread that will own it."""
    pair = load_runtime(settings.model, settings.speculator, chosen)
    warm(pair, settings.prefill_chunk, chosen.report)
    return pair


def run(settings: Settings, load: Callable[[], Pair], arrival: Arrival | None = None) -> int:
    """Serve until a signal comes. The exit status is 1 when the model could not be loaded or the port not be had."""
    configure(settings.log_level, settings.log_format)
    # uvicorn finds out only after the model began to load, and waits for that.
    try:
        try_address(settings.host, settings.port)
    except OSError as error:
        log.error("cannot listen on %s, port %d: %s", settings.host, settings.port, error)
        return 1
    failed = False

    def give_up() -> None:
        nonlocal failed
        failed = server.should_exit = True

    welcome = Welcome(settings)
    engine = Engine(load, settings, on_load_failure=give_up, on_ready=welcome.ready, arrival=arrival)
    try:
        config = configured(create_app(engine, settings), settings)
    except UnsafeSettings as error:
        log.error("%s", error)
        return 2
    server = DrainingServer(config, engine, settings.shutdown_grace, welcome)
    # After its own shutdown uvicorn raises Ctrl-C again, which would end in a traceback.
    with suppress(KeyboardInterrupt):
        server.run()
    status = 1 if failed or not server.started else 0
    if engine.left_behind:
        log.info("the download was cut off; files that are whole are kept")
        logging.shutdown()
        # Python itself would wait for the threads of the transfer.
        os._exit(status)
    return status
