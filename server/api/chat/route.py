"""`POST /chat/completions`."""

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from server.api import counts, parameters
from server.api.catalog import known
from server.api.chat import encode, schema
from server.api.listening import while_heard
from server.api.sse import EventStream, guarded
from server.api.wire import Json, json_body
from server.engine import Engine
from server.generation import begin
from server.settings import Settings


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """The dialect's one route."""
    router = APIRouter()

    @router.post("/chat/completions")
    async def complete(request: Request) -> Response:
        """Answer a conversation, streamed or whole."""
        body = await json_body(request, settings.max_body_mib << 20)
        # Megabytes take seconds to check, and the other streams go on meanwhile.
        told = await run_sync(schema.understood, body)
        asked, ignored = told.asked, parameters.told(told.ignored)
        model = known(engine, asked.model)
        generation = await begin(engine, told.turn)
        envelope = encode.Envelope.fresh(model.id, settings.reasoning_field, asked)
        if asked.stream:
            frames = encode.frames(generation.told(), envelope)
            return EventStream(guarded(frames, counts.error), generation, settings, headers=ignored)
        answers = await while_heard(request, generation)
        return Json(encode.body(answers, envelope), headers=ignored)

    return router
