"""`POST /tokenize` and `POST /detokenize`: what the model reads, in ids, in vLLM's shapes and llama.cpp's."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from pydantic import Field

from server.api import parameters
from server.api.catalog import known
from server.api.chat import schema as chat
from server.api.parameters import Parameters
from server.api.wire import Array, Json, Wire, checked, json_body, stated
from server.engine import Engine
from server.errors import MissingParameter, ParameterConflict
from server.prompt import checked_ids, plain_prompt, rendered
from server.served import Model
from server.settings import Settings
from server.turn import Plain, Turn

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {"add_generation_prompt": (True,), "continue_final_message": (False,), "parse_special": (True,)}
)
"""Fields of other servers that would change the ids and are not honoured beyond these values."""

PARAMETERS = Parameters(ONLY, frozenset())
NONE = Parameters(MappingProxyType({}), frozenset())
"""Of ids: whatever else comes with them is unknown, and named so."""

TEXTS = ("prompt", "content", "text")
"""Names of a text in use: vLLM's, llama.cpp's and the plain one."""


class Tokenize(Wire):
    """A text, or else `messages` with whatever a chat completion may have beside them."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    text: str | None = None
    add_special_tokens: bool | None = None
    """vLLM's name; for `prompt` true unless said otherwise, as in a completion."""
    add_special: bool | None = None
    """llama.cpp's."""
    return_token_strs: bool | None = None
    with_pieces: bool | None = None

    @property
    def opened(self) -> bool:
        """Whether the text has the tokenizer's opening tokens before it."""
        told = self.add_special if self.add_special_tokens is None else self.add_special_tokens
        return self.prompt is not None if told is None else told


class Detokenize(Wire):
    """Ids."""

    model: str | None = None
    tokens: Array[int] = Field()


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """Both routes."""
    router = APIRouter()

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        """Text or messages to ids."""
        body = await json_body(request, settings.max_body_mib << 20)
        told = await run_sync(_read, body)
        model = known(engine, told.asked.model)
        ids = await run_sync(_ids, model, told)
        return Json(await run_sync(_told, model, told.asked, ids), headers=parameters.told(told.ignored))

    @router.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        """Ids to text."""
        present = stated(await json_body(request, settings.max_body_mib << 20))
        asked, ignored = checked(Detokenize, present), NONE.unknown(present, Detokenize.model_fields)
        text = await run_sync(_text, known(engine, asked.model), asked)
        return Json({"prompt": text, "content": text}, headers=parameters.told(ignored))

    return router


@dataclass(frozen=True)
class _Read:
    """A request, and what its text or its messages come to."""

    asked: Tokenize
    of: Plain | Turn
    ignored: tuple[str, ...]


def _read(body: bytes) -> _Read:
    present = stated(body)
    PARAMETERS.refuse_unsupported(present)
    asked = checked(Tokenize, present)
    texts = [name for name in TEXTS if name in present]
    if len(texts) + ("messages" in present) > 1:
        raise ParameterConflict(f"Set 'messages' or one of {', '.join(TEXTS)}, not several.", param=texts[0])
    if texts:
        plain = Plain(present[texts[0]], opened=asked.opened)
        return _Read(asked, plain, PARAMETERS.unknown(present, Tokenize.model_fields))
    if "messages" not in present:
        raise MissingParameter("Missing required parameter: 'prompt' (or 'messages').", param="prompt")
    turn, honoured = chat.turn(chat.read(present)), {*Tokenize.model_fields, *chat.ChatRequest.model_fields}
    return _Read(asked, turn, PARAMETERS.unknown(present, honoured | chat.PARAMETERS.without_effect))


def _ids(model: Model, told: _Read) -> tuple[int, ...]:
    return (plain_prompt(model, told.of) if isinstance(told.of, Plain) else rendered(model, told.of)).ids


def _told(model: Model, asked: Tokenize, ids: tuple[int, ...]) -> dict[str, Any]:
    pieces = [model.tokenizer.bytes_of(id_) for id_ in ids] if asked.with_pieces or asked.return_token_strs else []
    tokens: list[Any] = list(ids)
    if asked.with_pieces:
        tokens = [{"id": id_, "piece": _piece(data)} for id_, data in zip(ids, pieces, strict=True)]
    strings = {"token_strs": [data.decode(errors="replace") for data in pieces]} if asked.return_token_strs else {}
    return {"count": len(ids), "max_model_len": model.context_length, "tokens": tokens} | strings


def _piece(data: bytes) -> str | list[int]:
    """Text, or the bytes of a part of a character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


def _text(model: Model, asked: Detokenize) -> str:
    decoder = model.tokenizer.decoder()
    return decoder.push(checked_ids(model, tuple(asked.tokens), "tokens")) + decoder.finish()
