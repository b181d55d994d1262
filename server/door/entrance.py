"""The checks in their order, around an application."""

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from server.door.answering import Answers
from server.door.bounds import Bounds
from server.door.hosts import HostCheck
from server.door.keys import KeyCheck, keys_of
from server.settings import Settings

METHODS = ("GET", "POST", "DELETE")
TOLD = ("x-request-id", "request-id", "x-laguna-ignored", "retry-after", "x-should-retry")
"""Headers of an answer that a page of an allowed origin may read."""


def guard(app: FastAPI, settings: Settings, answers: Answers) -> None:
    """Let requests through to `app` that are for this host, from an allowed origin, with a key and within bounds.

    A preflight carries no key, so origins come before keys; without origins nothing is said about them at all, and a
    browser keeps answers from other pages.

    Raises:
        UnsafeSettings: as `keys_of` says.
    """
    # What is added last is passed first.
    app.add_middleware(Bounds, upload_seconds=settings.upload_timeout, answers=answers)
    app.add_middleware(KeyCheck, keys=keys_of(settings), answers=answers)
    if settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=METHODS,
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=TOLD,
        )
    app.add_middleware(HostCheck, settings=settings, answers=answers)
