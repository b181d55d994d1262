"""Which status, type and code each refusal is on the wire, in one table."""

from dataclasses import dataclass
from typing import Any

from server.errors import (
    BodyTooLarge,
    BudgetTooLong,
    Cancelled,
    ClientGone,
    DeadlineExceeded,
    EngineDead,
    EngineHung,
    ForeignHost,
    GenerationFailed,
    HeadTooLarge,
    InternalError,
    InvalidType,
    InvalidValue,
    MalformedRequest,
    MissingParameter,
    ModelLoading,
    ParameterConflict,
    PreviousResponseNotFound,
    PromptTooLong,
    QueueFull,
    Refusal,
    ServerStopping,
    SlowUpload,
    TooDeep,
    TooMany,
    TooManyConnections,
    UnknownModel,
    UnknownResponse,
    UnknownRoute,
    UnreadableBody,
    UnrenderablePrompt,
    UnsupportedMediaType,
    UnsupportedParameter,
    UnsupportedTransfer,
    UrlTooLong,
    WrongKey,
    WrongMethod,
    clipped,
)

MESSAGE_LIMIT = 600
"""Longest error message sent, in characters: part of it may come from the request."""
PARAM_LIMIT = 120


@dataclass(frozen=True)
class Verdict:
    """How one kind of refusal looks on the wire."""

    status: int
    type: str
    code: str | None
    retry_after: int | None = None
    """Seconds after which another try is worth it."""
    final: bool = False
    """Clients retry a 5xx by themselves; with this they are told not to."""


VERDICTS: dict[type[Refusal], Verdict] = {
    UnreadableBody: Verdict(400, "invalid_request_error", None),
    MissingParameter: Verdict(400, "invalid_request_error", "missing_required_parameter"),
    InvalidType: Verdict(400, "invalid_request_error", "invalid_type"),
    InvalidValue: Verdict(400, "invalid_request_error", "invalid_value"),
    UnsupportedParameter: Verdict(400, "invalid_request_error", "unsupported_parameter"),
    ParameterConflict: Verdict(400, "invalid_request_error", "invalid_parameter_combination"),
    TooDeep: Verdict(400, "invalid_request_error", "nested_too_deeply"),
    TooMany: Verdict(400, "invalid_request_error", "too_many_items"),
    MalformedRequest: Verdict(400, "invalid_request_error", "malformed_request"),
    PromptTooLong: Verdict(400, "invalid_request_error", "context_length_exceeded"),
    BudgetTooLong: Verdict(400, "invalid_request_error", "context_length_exceeded"),
    UnrenderablePrompt: Verdict(400, "invalid_request_error", "invalid_prompt"),
    WrongKey: Verdict(401, "authentication_error", "invalid_api_key"),
    PreviousResponseNotFound: Verdict(400, "invalid_request_error", "previous_response_not_found"),
    UnknownResponse: Verdict(404, "invalid_request_error", "response_not_found"),
    UnknownModel: Verdict(404, "invalid_request_error", "model_not_found"),
    UnknownRoute: Verdict(404, "invalid_request_error", "unknown_url"),
    WrongMethod: Verdict(405, "invalid_request_error", "method_not_allowed"),
    SlowUpload: Verdict(408, "invalid_request_error", "request_timeout", final=True),
    BodyTooLarge: Verdict(413, "invalid_request_error", "request_too_large"),
    UnsupportedMediaType: Verdict(415, "invalid_request_error", "unsupported_media_type"),
    UrlTooLong: Verdict(414, "invalid_request_error", "url_too_long"),
    ForeignHost: Verdict(421, "invalid_request_error", "host_not_allowed"),
    QueueFull: Verdict(429, "rate_limit_error", "queue_full", retry_after=1),
    HeadTooLarge: Verdict(431, "invalid_request_error", "headers_too_large"),
    Cancelled: Verdict(499, "invalid_request_error", "response_cancelled"),
    ClientGone: Verdict(499, "invalid_request_error", "client_closed_request"),
    InternalError: Verdict(500, "server_error", "internal_error", final=True),
    GenerationFailed: Verdict(500, "server_error", "generation_failed", final=True),
    UnsupportedTransfer: Verdict(501, "server_error", "unsupported_transfer_encoding", final=True),
    TooManyConnections: Verdict(503, "server_error", "too_many_connections", retry_after=1),
    ModelLoading: Verdict(503, "server_error", "model_loading", retry_after=1),
    ServerStopping: Verdict(503, "server_error", "server_stopping", retry_after=5),
    EngineHung: Verdict(503, "server_error", "engine_hung", retry_after=30),
    DeadlineExceeded: Verdict(504, "server_error", "deadline_exceeded", final=True),
    EngineDead: Verdict(503, "server_error", "engine_dead", final=True),
}


def verdict(refusal: Refusal) -> Verdict:
    """The refusal's row of the table."""
    return VERDICTS[type(refusal)]


def envelope(refusal: Refusal) -> dict[str, Any]:
    """OpenAI's error object with all four keys, bounded in size."""
    row = verdict(refusal)
    return {
        "error": {
            "message": clipped(refusal.message, MESSAGE_LIMIT),
            "type": row.type,
            "param": None if refusal.param is None else clipped(refusal.param, PARAM_LIMIT),
            "code": row.code,
        }
    }


def headers(refusal: Refusal) -> dict[str, str]:
    """What the SDKs read to decide on another try."""
    row = verdict(refusal)
    wait = {} if row.retry_after is None else {"retry-after": str(row.retry_after)}
    challenge = {"www-authenticate": "Bearer"} if row.status == 401 else {}
    return wait | challenge | ({"x-should-retry": "false"} if row.final else {})
