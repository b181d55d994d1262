"""Running the application under uvicorn until somebody stops it."""

import logging
from functools import partial

import uvicorn

from models.runtime import load_runtime
from server.app import create_app
from server.engine import Engine
from server.settings import Settings

log = logging.getLogger(__name__)


def serve_forever(settings: Settings) -> int:
    """Serve until a signal comes; the exit status is 1 when the model could not be loaded or the port not be had."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s:     %(name)s: %(message)s")
    server: uvicorn.Server

    failed = False

    def give_up() -> None:
        nonlocal failed
        failed = server.should_exit = True

    engine = Engine(partial(load_runtime, settings.model, settings.speculator), settings, on_load_failure=give_up)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(engine, settings),
            host=settings.host,
            port=settings.port,
            log_level=settings.log_level,
            # Longer than the streams' own grace, or it would cut them short.
            timeout_graceful_shutdown=round(settings.shutdown_grace) + 3,
        )
    )
    server.run()
    return 1 if failed or not server.started else 0
