"""`POST /completions`."""

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from server.api import counts, parameters
from server.api.catalog import known
from server.api.completions import encode, schema
from server.api.listening import while_heard
from server.api.sse import EventStream, guarded
from server.api.wire import Json, json_body
from server.engine import Engine
from server.generation import begin
from server.served import Model
from server.settings import Settings


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """The dialect's one route."""
    router = APIRouter()

    @router.post("/completions")
    async def complete(request: Request) -> Response:
        """Go on from prompts, streamed or whole."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(schema.understood, body)
        asked, ignored = told.asked, parameters.told(told.ignored)
        model = known(engine, asked.model)
        repeated = [_text(model, each) if asked.echo and not asked.scores_prompt else "" for each in asked.prompt]
        generation = await begin(engine, *told.turns)
        envelope = encode.Envelope.fresh(model.id, asked, repeated)
        if asked.stream:
            frames = encode.frames(generation.told(), envelope)
            return EventStream(guarded(frames, counts.error), generation, settings, headers=ignored)
        answers = await while_heard(request, generation)
        return Json(encode.body(answers, envelope), headers=ignored)

    return router


def _text(model: Model, prompt: str | tuple[int, ...]) -> str:
    if isinstance(prompt, str):
        return prompt
    decoder = model.tokenizer.decoder()
    return decoder.push(prompt) + decoder.finish()
