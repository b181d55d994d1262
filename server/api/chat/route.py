"""`POST /chat/completions`."""

from fastapi import APIRouter, Request, Response

from server.api.catalog import known
from server.api.chat import encode, schema
from server.api.listening import while_heard
from server.api.sse import EventStream, guarded
from server.api.wire import Json, json_object
from server.engine import Engine
from server.generation import begin
from server.settings import Settings


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """The dialect's one route."""
    router = APIRouter()

    @router.post("/chat/completions")
    async def complete(request: Request) -> Response:
        """Answer a conversation, streamed or whole."""
        asked = schema.read(await json_object(request, settings.max_body_mib << 20))
        model = known(engine, asked.model)
        generation = await begin(engine, schema.turn(asked))
        envelope = encode.Envelope.fresh(model.id, settings.reasoning_field)
        if asked.stream:
            frames = encode.frames(generation.events(), envelope, include_usage=asked.include_usage)
            return EventStream(guarded(frames, encode.error), generation, settings)
        answer = await while_heard(request, generation)
        return Json(encode.body(answer, envelope))

    return router
