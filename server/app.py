"""Putting the parts together: routes, error answers, and the engine's life inside the application's."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from server.api import catalog, figures, ops, pages, tokens
from server.api.chat import route as chat
from server.api.chat.schema import ChatRequest
from server.api.completions import route as completions
from server.api.document.application import Application
from server.api.identity import RequestId
from server.api.messages import route as messages
from server.api.refused import refused
from server.api.responses import route as responses
from server.api.responses.store import Store
from server.api.wire import Json
from server.door.entrance import guard
from server.door.journal import Journal
from server.engine import Engine
from server.errors import (
    Refusal,
    UnknownRoute,
    UnreadableBody,
    WrongMethod,
    clipped,
)
from server.metrics import Metrics
from server.settings import Settings

PARAMETERS = ChatRequest.model_fields.keys() - {"model", "messages"}
"""What a chat may say beside the conversation itself."""


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The application. Its start begins to load the model, its end waits until the engine's thread is gone."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncGenerator[None]:
        await engine.start()
        try:
            yield
        finally:
            await engine.stop()

    app = Application(title="laguna-server", lifespan=life, docs_url=None, redoc_url=None, redirect_slashes=False)
    metrics = Metrics(engine)
    guard(app, settings, refused)
    app.add_middleware(Journal, observe=metrics.observe, answers=refused)
    app.add_middleware(RequestId)
    store = Store(settings.responses_kept, settings.responses_kept_mib << 20)
    for prefix in ("/v1", ""):
        for router in (
            chat.routes(engine, settings),
            messages.routes(engine, settings),
            completions.routes(engine, settings),
            responses.routes(engine, settings, store),
            catalog.routes(engine, settings, PARAMETERS),
            tokens.routes(engine, settings),
        ):
            app.include_router(router, prefix=prefix, include_in_schema=bool(prefix))
    app.include_router(ops.routes(engine, settings))
    app.include_router(figures.routes(metrics))
    app.include_router(pages.routes())
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    return app


async def _refused(request: Request, refusal: Exception) -> Json:
    assert isinstance(refusal, Refusal)
    return refused(request, refusal)


async def _http_error(request: Request, error: Exception) -> Json:
    """What the router itself refuses: no such URL, or not with this method."""
    assert isinstance(error, HTTPException)
    place = f"{request.method} {clipped(request.url.path, 200)}"
    match error.status_code:
        case 404:
            return refused(request, UnknownRoute(f"Invalid URL ({place})."))
        case 405:
            return refused(request, WrongMethod(f"Not allowed ({place})."), dict(error.headers or {}))
    return refused(request, UnreadableBody(f"The request could not be read ({place})."))
