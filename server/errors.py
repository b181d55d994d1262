"""Every refusal by name, and in one table which status, type and code it is on the wire."""

from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 600
"""Longest error message sent, in characters: part of it may come from the request."""
PARAM_LIMIT = 120


class Refusal(Exception):
    """Base of everything the server says no with; raise one of the names below."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class UnreadableBody(Refusal):
    """The body is not a JSON object."""


class UnsupportedMediaType(Refusal):
    """The body does not call itself JSON."""


class BodyTooLarge(Refusal):
    """The body is longer than the server reads."""


class HeadTooLarge(Refusal):
    """The request has more or longer headers than the server reads."""


class UrlTooLong(Refusal):
    """The URL is longer than the server reads."""


class MalformedRequest(Refusal):
    """What came is not HTTP."""


class UnsupportedTransfer(Refusal):
    """A transfer encoding that the server does not read."""


class TooDeep(Refusal):
    """The JSON body is nested deeper than anything a request needs."""


class TooMany(Refusal):
    """A list in the body is longer than the server takes."""


class SlowUpload(Refusal):
    """The request did not arrive in time."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The request did not arrive within {seconds:g} seconds.")


class ForeignHost(Refusal):
    """The request is for a host that is not this server: a page of another site may have been led here."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"This server does not answer to the host '{host}'. Start it with --allowed-host if it should."
        )


class WrongKey(Refusal):
    """No API key, or none that opens this server."""

    def __init__(self, *, given: bool) -> None:
        super().__init__(
            "Incorrect API key provided."
            if given
            else "You didn't provide an API key: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
        )


class TooManyConnections(Refusal):
    """As many connections are open as may be."""

    def __init__(self) -> None:
        super().__init__("The server is busy: too many connections are open. Please retry shortly.")


class MissingParameter(Refusal):
    """A required field is absent."""


class InvalidType(Refusal):
    """A field holds the wrong kind of JSON value."""


class InvalidValue(Refusal):
    """A field holds a value outside what the API allows."""


class UnsupportedParameter(Refusal):
    """A field of the API that would change the answer and is not honoured."""


class ParameterConflict(Refusal):
    """Two fields that cannot both be set."""


class UnknownModel(Refusal):
    """Another model than the one served."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The model `{clipped(model, 100)}` does not exist or you do not have access to it.", param="model"
        )


class UnknownRoute(Refusal):
    """No such URL."""


class WrongMethod(Refusal):
    """The URL exists, but not for this method."""


class PromptTooLong(Refusal):
    """The rendered prompt leaves no room for an answer. Agents read both numbers out of this very sentence."""

    def __init__(self, *, tokens: int, limit: int, param: str = "messages") -> None:
        super().__init__(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages.",
            param=param,
        )
        self.tokens = tokens
        self.limit = limit


class BudgetTooLong(Refusal):
    """Prompt and budget together are longer than the context. Claude Code reads the numbers out of this sentence."""

    def __init__(self, *, tokens: int, budget: int, limit: int) -> None:
        super().__init__(
            f"input length and `max_tokens` exceed context limit: {tokens} + {budget} > {limit}, "
            "decrease input length or `max_tokens` and try again",
            param="max_tokens",
        )


class UnrenderablePrompt(Refusal):
    """The chat template cannot show this conversation."""


class QueueFull(Refusal):
    """As many requests as may wait are waiting."""

    def __init__(self, *, waiting: int) -> None:
        super().__init__(f"The server is busy: {waiting} requests are waiting already. Please retry shortly.")


class ModelLoading(Refusal):
    """The model is not loaded yet."""

    def __init__(self) -> None:
        super().__init__("The model is still loading. Please retry shortly.")


class ServerStopping(Refusal):
    """The server was told to stop."""

    def __init__(self) -> None:
        super().__init__("The server is shutting down.")


class EngineDead(Refusal):
    """The thread that decodes has ended; only a restart helps."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The engine has stopped ({reason}). The server must be restarted.")


class GenerationFailed(Refusal):
    """This request alone failed while it was decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The request failed while it was generated: {reason}")


class ClientGone(Refusal):
    """The client hung up before its answer was whole; nobody reads this."""

    def __init__(self) -> None:
        super().__init__("The client closed the connection.")


class Cancelled(Refusal):
    """Another request ended this one."""

    def __init__(self) -> None:
        super().__init__("The response was cancelled.")


class UnknownResponse(Refusal):
    """No kept response has this id."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"Response with id '{clipped(id_, 100)}' not found.")


class PreviousResponseNotFound(Refusal):
    """The response that a request goes on from is not kept, or not any more."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"Previous response with id '{clipped(id_, 100)}' not found.", param="previous_response_id")


class DeadlineExceeded(Refusal):
    """The answer took longer than the server gives one."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"The answer was not finished within {seconds:g} seconds, the most that this server gives.")


class InternalError(Refusal):
    """A fault of the server's own; its details are in the log, not in the answer."""

    def __init__(self) -> None:
        super().__init__("The server had an internal error while it processed the request.")


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


def clipped(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
