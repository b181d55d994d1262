"""`POST /messages` and `POST /messages/count_tokens`."""

from functools import partial

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from server.api import parameters
from server.api.identity import request_id
from server.api.listening import while_heard
from server.api.messages import encode, refusal, schema
from server.api.sse import EventStream, guarded
from server.api.wire import Json, json_body
from server.engine import Engine
from server.generation import begin, measured
from server.settings import Settings


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """The dialect's routes. A query such as `?beta=true` says nothing."""
    router = APIRouter()

    @router.post("/messages")
    async def create(request: Request) -> Response:
        """Answer a conversation, streamed or whole."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(schema.understood, body)
        ignored = parameters.told(told.ignored)
        generation = await begin(engine, told.turn)
        # Claude Code sends no thinking back that another model than the one it asked for seems to have thought.
        model = told.model or engine.model.id
        envelope = encode.Envelope.fresh(model, generation.prompt_tokens, omits_thinking=told.omits_thinking)
        if told.stream:
            on_error = partial(refusal.event, request_id=request_id(request))
            frames = guarded(encode.frames(generation.events(), envelope), on_error)
            return EventStream(frames, generation, settings, headers=ignored, keep_alive=encode.ping)
        (answer,) = await while_heard(request, generation)
        return Json(encode.body(answer, envelope), headers=ignored)

    @router.post("/messages/count_tokens")
    async def count(request: Request) -> Response:
        """Measure the prompt that a conversation makes."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(schema.countable, body)
        tokens = await measured(engine, told.turn)
        return Json({"input_tokens": tokens}, headers=parameters.told(told.ignored))

    return router
