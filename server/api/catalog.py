"""The model list: one model, and every name it answers to."""

from collections.abc import Collection
from typing import Any

from fastapi import APIRouter

from server.api.state import speculation, thinks
from server.engine import Engine
from server.errors import UnknownModel
from server.served import Model
from server.settings import Settings


def known(engine: Engine, name: str | None) -> Model:
    """The served model, if that is what `name` means; no name means it too.

    Raises:
        UnknownModel: another one is asked for.
        ModelLoading, EngineHung, EngineDead, ServerStopping: there is none at the moment.
    """
    model = engine.model
    if name is not None and name.rstrip("/") not in model.names:
        raise UnknownModel(name, model.id)
    return model


def card(engine: Engine, settings: Settings, model: Model, supported: Collection[str]) -> dict[str, Any]:
    """OpenAI's model object, with the context length and parameters under the names that clients look for."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": "laguna-server",
        "context_length": model.context_length,
        "max_model_len": model.context_length,
        "supported_parameters": sorted(supported),
        "meta": {
            "n_ctx": model.context_length,
            "thinking": thinks(model),
            "speculation": speculation(engine, settings),
            "speculator": model.speculator,
            "speculation_off": model.speculation_off,
            "warnings": list(model.warnings),
        },
    }


def routes(engine: Engine, settings: Settings, supported: Collection[str]) -> APIRouter:
    """`/models` and `/models/{id}`; an id may hold slashes. `supported` are the parameters that a chat may have."""
    router = APIRouter()

    @router.get("/models")
    async def models() -> dict[str, Any]:
        """The one model served."""
        return {"object": "list", "data": [card(engine, settings, engine.model, supported)]}

    @router.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """The model, under any of its names."""
        return card(engine, settings, known(engine, name), supported)

    return router
