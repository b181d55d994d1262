"""`POST /responses`, and what becomes of a response afterwards."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from server.api import parameters
from server.api.catalog import known
from server.api.listening import while_heard
from server.api.responses import encode, schema
from server.api.responses.afterwards import afterwards
from server.api.responses.items import read
from server.api.responses.store import Store
from server.api.sse import EventStream, guarded
from server.api.wire import Json, compact, json_body
from server.engine import Engine
from server.generation import begin, measured
from server.settings import Settings


def routes(engine: Engine, settings: Settings, store: Store) -> APIRouter:
    """The dialect's routes."""
    router = APIRouter()

    @router.post("/responses")
    async def create(request: Request) -> Response:
        """Answer a conversation, streamed or whole."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(partial(schema.understood, body, store))
        ignored = parameters.told(told.ignored)
        model = known(engine, told.asked.model)
        generation = await begin(engine, told.turn)
        envelope = encode.Envelope.fresh(model, told)
        telling = encode.Telling(envelope, partial(_keep, store, told))
        if told.stored:
            store.began(told.kept(telling.running, (), 0), generation.cancel)
        left = partial(store.left, envelope.id)
        if told.asked.stream:
            frames = guarded(encode.frames(generation.events(), telling), partial(encode.failure, telling))
            alive = partial(encode.keep_alive, telling)
            return EventStream(frames, generation, settings, headers=ignored, keep_alive=alive, on_close=left)
        try:
            (answer,) = await while_heard(request, generation)
            return Json(encode.body(answer, telling), headers=ignored)
        finally:
            left()

    @router.post("/responses/input_tokens")
    async def count(request: Request) -> Response:
        """Measure the prompt that a conversation makes."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(partial(schema.understood, body, store))
        known(engine, told.asked.model)
        tokens = await measured(engine, told.turn)
        counted = {"object": "response.input_tokens", "input_tokens": tokens}
        return Json(counted, headers=parameters.told(told.ignored))

    router.include_router(afterwards(store))
    return router


def _keep(store: Store, told: schema.Understood, response: dict[str, Any], output: Sequence[dict[str, Any]]) -> None:
    """Keep a response that is over, with its items as a later request would send them."""
    if told.stored:
        items = tuple(read(item, "output", lambda _: None) for item in output)
        store.ended(told.kept(response, items, len(compact(output))))
