"""Running the application under uvicorn until somebody stops it."""

import logging
from collections.abc import Callable
from functools import partial

import uvicorn

from models.runtime import load_runtime
from server.app import create_app
from server.backend import Pair
from server.engine import Engine
from server.settings import Settings


def serve_forever(settings: Settings) -> int:
    """Load the checkpoint that the settings name and serve it; see `run`."""
    return run(settings, partial(load_runtime, settings.model, settings.speculator))


def run(settings: Settings, load: Callable[[], Pair]) -> int:
    """Serve until a signal comes. The exit status is 1 when the model could not be loaded or the port not be had."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s:     %(name)s: %(message)s")
    failed = False

    def give_up() -> None:
        nonlocal failed
        failed = server.should_exit = True

    app = create_app(Engine(load, settings, on_load_failure=give_up), settings)
    # Open streams get their own grace first; uvicorn's limit only ends what did not use it.
    limit = round(settings.shutdown_grace) + 3
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_level=settings.log_level,
            timeout_graceful_shutdown=limit,
        )
    )
    server.run()
    return 1 if failed or not server.started else 0
