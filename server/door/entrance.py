"""The checks in their order, around an application."""

import re

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from server.door.answering import Answers, UnsafeSettings
from server.door.bounds import Bounds
from server.door.hosts import HostCheck, Names
from server.door.keys import KeyCheck, keys_of
from server.settings import Settings

_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s/?#@,A-Z]+")
METHODS = ("GET", "POST", "DELETE")
TOLD = ("x-request-id", "request-id", "x-laguna-ignored", "retry-after", "x-should-retry")
"""Headers of an answer that a page of an allowed origin may read."""


def guard(app: FastAPI, settings: Settings, answers: Answers) -> None:
    """Let requests through to `app` that are for this host, from an allowed origin, with a key and within bounds.

    A preflight carries no key, so origins come before keys; without origins nothing is said about them at all, and a
    browser keeps answers from other pages.

    Raises:
        UnsafeSettings: as `keys_of` and `Names.of` say, or an origin is none.
    """
    # What is added last is passed first.
    app.add_middleware(Bounds, upload_seconds=settings.upload_timeout, answers=answers)
    app.add_middleware(KeyCheck, keys=keys_of(settings), answers=answers)
    wrong = next((origin for origin in settings.cors_origin if not _ORIGIN.fullmatch(origin)), None)
    if wrong is not None:
        raise UnsafeSettings(
            f"--cors-origin {wrong!r} is no origin: give scheme, host and port, as https://example.org"
        )
    if settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=METHODS,
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=TOLD,
        )
    names = Names.of(settings.host, settings.allowed_host)
    app.add_middleware(HostCheck, names=names, answers=answers)
