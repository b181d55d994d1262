"""What each path answers, as JSON schemas: the members that are always there, and the shapes of the others."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FREE: Schema = {"type": "object"}
NULL: Schema = {"type": "null"}


def _object(optional: Mapping[str, Schema] | None = None, **required: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _list(item: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": item, "minItems": least}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_REASON = _one_of("stop", "length", "tool_calls")
_CALL = _object(id=TEXT, type=_one_of("function"), function=_object(name=TEXT, arguments=TEXT))
_SPOKEN = _object(
    {"reasoning_content": TEXT, "reasoning": TEXT, "tool_calls": _list(_CALL, 1)},
    role=_one_of("assistant"),
    content=_or_null(TEXT),
    refusal=NULL,
)
_CHOICE = _object({"laguna": FREE}, index=COUNT, message=_SPOKEN, logprobs=_or_null(FREE), finish_reason=_REASON)
_USAGE = _object(
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    prompt_tokens_details=_object(cached_tokens=COUNT),
    completion_tokens_details=_object(reasoning_tokens=COUNT),
)
_BLOCK = _object(type=_one_of("text", "thinking", "tool_use"))
_ITEM = _object(id=TEXT, type=_one_of("message", "reasoning", "function_call"), status=TEXT)
_MODEL = _object(
    id=TEXT,
    object=_one_of("model"),
    created=COUNT,
    owned_by=TEXT,
    context_length=COUNT,
    supported_parameters=_list(TEXT),
    meta=FREE,
)

SCHEMAS: Mapping[str, Schema] = MappingProxyType(
    {
        "Error": _object(error=_object(message=TEXT, type=TEXT, param=_or_null(TEXT), code=_or_null(TEXT))),
        "MessagesError": _object(type=_one_of("error"), error=_object(type=TEXT, message=TEXT), request_id=TEXT),
        "ChatCompletion": _object(
            {"service_tier": TEXT},
            id=TEXT,
            object=_one_of("chat.completion"),
            created=COUNT,
            model=TEXT,
            choices=_list(_CHOICE, 1),
            usage=_USAGE,
            laguna=FREE,
        ),
        "TextCompletion": _object(
            id=TEXT,
            object=_one_of("text_completion"),
            created=COUNT,
            model=TEXT,
            choices=_list(_object(index=COUNT, text=TEXT, logprobs=_or_null(FREE), finish_reason=_REASON), 1),
            usage=_USAGE,
            laguna=FREE,
        ),
        "ResponseObject": _object(
            {"laguna": FREE, "incomplete_details": _or_null(FREE)},
            id=TEXT,
            object=_one_of("response"),
            created_at=COUNT,
            model=TEXT,
            status=_one_of("in_progress", "completed", "incomplete", "failed", "cancelled"),
            output=_list(_ITEM),
            error=_or_null(FREE),
            usage=_or_null(_object(input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT)),
        ),
        "AnthropicMessage": _object(
            id=TEXT,
            type=_one_of("message"),
            role=_one_of("assistant"),
            model=TEXT,
            content=_list(_BLOCK),
            stop_reason=_one_of("end_turn", "max_tokens", "stop_sequence", "tool_use"),
            stop_sequence=_or_null(TEXT),
            usage=_object(input_tokens=COUNT, output_tokens=COUNT),
            laguna=FREE,
        ),
        "InputTokens": _object(input_tokens=COUNT),
        "ResponseInputTokens": _object(object=_one_of("response.input_tokens"), input_tokens=COUNT),
        "Model": _MODEL,
        "ModelList": _object(object=_one_of("list"), data=_list(_named("Model"), 1)),
        "Deleted": _object(id=TEXT, object=_one_of("response"), deleted={"const": True}),
        "ItemList": _object(
            object=_one_of("list"),
            data=_list(FREE),
            has_more={"type": "boolean"},
            first_id=_or_null(TEXT),
            last_id=_or_null(TEXT),
        ),
        "Tokens": _object({"token_strs": _list(TEXT)}, count=COUNT, max_model_len=COUNT, tokens=_list({})),
        "DetokenizedText": _object(prompt=TEXT, content=TEXT),
        "Health": _object(
            status=_one_of("ok", "loading", "hung", "dead", "stopped"),
            reason=_or_null(TEXT),
            running=COUNT,
            waiting=COUNT,
            speculation=FREE,
        ),
        "Ready": _object(status=_one_of("ready"), model=TEXT),
    }
)

ANSWERS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("post", "/v1/chat/completions"): "ChatCompletion",
        ("post", "/v1/completions"): "TextCompletion",
        ("post", "/v1/responses"): "ResponseObject",
        ("post", "/v1/responses/input_tokens"): "ResponseInputTokens",
        ("get", "/v1/responses/{response_id}"): "ResponseObject",
        ("post", "/v1/responses/{response_id}/cancel"): "ResponseObject",
        ("delete", "/v1/responses/{response_id}"): "Deleted",
        ("get", "/v1/responses/{response_id}/input_items"): "ItemList",
        ("post", "/v1/messages"): "AnthropicMessage",
        ("post", "/v1/messages/count_tokens"): "InputTokens",
        ("get", "/v1/models"): "ModelList",
        ("get", "/v1/models/{name}"): "Model",
        ("post", "/v1/tokenize"): "Tokens",
        ("post", "/v1/detokenize"): "DetokenizedText",
        ("get", "/health"): "Health",
        ("get", "/ready"): "Ready",
    }
)
"""The schema of what a request that is granted gets, by method and path. `/metrics` is no JSON."""

STREAMED = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"})
"""Where `stream` turns the answer into server-sent events."""
