"""What each path takes, from the schemas that check it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic.json_schema import models_json_schema

from server.api import tokens
from server.api.chat.parameters import PARAMETERS as CHAT
from server.api.chat.schema import ChatRequest
from server.api.completions.schema import PARAMETERS as COMPLETIONS
from server.api.completions.schema import CompletionRequest
from server.api.messages.parameters import PARAMETERS as MESSAGES
from server.api.messages.schema import CountRequest, MessagesRequest
from server.api.parameters import Parameters
from server.api.responses.afterwards import LISTED, MOST_LISTED
from server.api.responses.parameters import PARAMETERS as RESPONSES
from server.api.responses.schema import ResponsesRequest
from server.api.wire import Wire

BODIES: Mapping[str, tuple[type[Wire], Parameters]] = MappingProxyType(
    {
        "/v1/chat/completions": (ChatRequest, CHAT),
        "/v1/completions": (CompletionRequest, COMPLETIONS),
        "/v1/responses": (ResponsesRequest, RESPONSES),
        "/v1/responses/input_tokens": (ResponsesRequest, RESPONSES),
        "/v1/messages": (MessagesRequest, MESSAGES),
        "/v1/messages/count_tokens": (CountRequest, MESSAGES),
        "/v1/tokenize": (tokens.Tokenize, tokens.PARAMETERS),
        "/v1/detokenize": (tokens.Detokenize, tokens.NONE),
    }
)

QUERIES: Mapping[str, tuple[dict[str, Any], ...]] = MappingProxyType(
    {
        "/v1/responses/{response_id}": (
            {"name": "stream", "schema": {"enum": ["false"]}, "description": "A stream cannot be taken up again."},
        ),
        "/v1/responses/{response_id}/input_items": (
            {"name": "limit", "schema": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": LISTED}},
            {"name": "order", "schema": {"enum": ["asc", "desc"], "default": "desc"}},
            {"name": "after", "schema": {"type": "string"}, "description": "The id of the item before the first."},
        ),
    }
)
"""Of `GET`."""


def bodies() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """By path, what may be sent there; and the schemas that those refer to, by their names."""
    models = dict(BODIES.values())
    refs, defined = models_json_schema(
        [(model, "validation") for model in models], by_alias=True, ref_template="#/components/schemas/{model}"
    )
    schemas = dict(defined["$defs"])
    for model, parameters in models.items():
        name = refs[model, "validation"]["$ref"].rpartition("/")[2]
        schemas[name] = _with_others(schemas[name], parameters)
    return {path: _body(refs[model, "validation"]) for path, (model, _) in BODIES.items()}, schemas


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _with_others(schema: dict[str, Any], parameters: Parameters) -> dict[str, Any]:
    """The fields of a request that are not honoured, too: they may hold their default, or anything without effect."""
    only = {
        name: {"enum": [*values, None], "description": "Refused with any other value."}
        for name, values in parameters.only.items()
    }
    idle = {name: {"description": "Accepted, and without effect."} for name in sorted(parameters.without_effect)}
    return schema | {"properties": schema["properties"] | only | idle}
