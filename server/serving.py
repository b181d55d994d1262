"""Running the application under uvicorn until somebody stops it."""

import asyncio
import faulthandler
import gc
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from models.loading import Loading
from models.runtime import load_runtime
from server.address import CannotListen, base_url, try_address
from server.app import create_app
from server.arrival import Arrival
from server.backend import Pair
from server.display import Display
from server.door.answering import UnsafeSettings
from server.door.bounds import HEAD_BYTES
from server.door.connection import Patience, patient
from server.draining import LAST_WORDS, DrainingServer, second_signal_ends_at_once
from server.engine import Engine
from server.loading import loading
from server.logs import configure
from server.settings import Settings
from server.warming import warm
from server.welcome import Welcome, reaching

log = logging.getLogger(__name__)

STOPPED, NOT_STARTED, WRONG_SETTINGS, DIED = 0, 1, 2, 3
"""Exit statuses: a signal ended it; the model or the port could not be had, or the end had to be forced; the settings
are wrong or unsafe; the engine died. A second signal ends it at once, with 128 and the signal's number.
"""
DEATH_NOTICE = 1.0
"""Seconds for which a server whose engine died still says so."""


def configured(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """uvicorn as this server wants it."""
    patience = Patience(settings.max_connections, settings.upload_timeout, settings.stall_timeout)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        # Its steps of starting and ending are told here in fewer words.
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        # The door tells of requests, and all lines have one form.
        access_log=False,
        log_config=None,
        http=patient(patience),
        h11_max_incomplete_event_size=HEAD_BYTES,
        ws="none",
        # Longer than the grace: this cuts connections, and only those that did not heed it.
        timeout_graceful_shutdown=ceil(settings.shutdown_grace + LAST_WORDS),
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
    # What is there by now stays: to look through it for garbage again would hold up every stream.
    gc.collect()
    gc.freeze()
    return pair


def run(settings: Settings, load: Callable[[], Pair], arrival: Arrival | None = None) -> int:
    """Serve until a signal comes, and say how it ended, by one of the exit statuses above."""
    configure(settings.log_level, settings.log_format)
    # uvicorn finds out only after the model began to load, and waits for that.
    try:
        try_address(settings.host, settings.port)
    except CannotListen as error:
        log.error("cannot listen on %s, port %d: %s. %s", settings.host, settings.port, error, _elsewhere(settings))
        return NOT_STARTED
    died = False

    def give_up() -> None:
        nonlocal died
        died = True
        # Whoever asks after its health hears of it before nobody answers any more.
        asyncio.get_running_loop().call_later(DEATH_NOTICE if engine.was_ready else 0, leave)

    def leave() -> None:
        server.should_exit = True

    welcome = Welcome(settings)
    engine = Engine(load, settings, on_death=give_up, on_ready=welcome.ready, arrival=arrival)
    try:
        config = configured(create_app(engine, settings), settings)
    except UnsafeSettings as error:
        log.error("%s", error)
        return WRONG_SETTINGS
    server = DrainingServer(config, engine, settings.shutdown_grace, welcome)
    # A signal may come before uvicorn listens to it, too.
    with suppress(KeyboardInterrupt):
        server.run()
    second_signal_ends_at_once()
    status = STOPPED if server.started and not died else NOT_STARTED
    if died and engine.was_ready:
        log.error("the engine died (%s); start the server anew", engine.health.reason)
        status = DIED
    if engine.left_behind:
        _cut_off(status)
    return status


def _elsewhere(settings: Settings) -> str:
    talks = reaching("laguna chat", base_url(settings.host, settings.port))
    return f"Another port is chosen with --port (0: any free one); `{talks}` talks to an earlier server there"


def _cut_off(status: int) -> NoReturn:
    """End although a transfer is under way or the engine hangs; Python itself would wait for its threads."""
    if status == DIED:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
    else:
        log.info("the download was cut off; files that are whole are kept")
    logging.shutdown()
    os._exit(status)
