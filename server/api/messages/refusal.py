"""Refusals in Anthropic's words."""

from typing import Any

from server.api.sse import named
from server.api.wire import compact
from server.errors import PromptTooLong, Refusal, UnsupportedParameter, clipped
from server.verdicts import MESSAGE_LIMIT, verdict

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}


def owns(path: str) -> bool:
    """Whether who asks at this path reads Anthropic's errors."""
    place = path.removeprefix("/v1")
    return place == "/messages" or place.startswith("/messages/")


def kind(refusal: Refusal) -> str:
    """Anthropic's type of error. Those that pass by themselves are named as overload, which their clients wait for."""
    row = verdict(refusal)
    if row.status in TYPES:
        return TYPES[row.status]
    if row.status < 500:
        return "invalid_request_error"
    return "api_error" if row.retry_after is None else "overloaded_error"


def message(refusal: Refusal) -> str:
    """What it says. Claude Code makes room when it reads this sentence about the prompt, and no other."""
    if isinstance(refusal, PromptTooLong):
        return f"prompt is too long: {refusal.tokens} tokens > {refusal.limit} maximum"
    return refusal.message


def envelope(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """Anthropic's error object, bounded in size. It has no place for a parameter, so the message names it."""
    error = {"type": kind(refusal), "message": clipped(message(refusal), MESSAGE_LIMIT)} | _details(refusal)
    return {"type": "error", "error": error, "request_id": request_id}


def _details(refusal: Refusal) -> dict[str, Any]:
    """The SDK's tool runner asks for a thread by itself, and goes on without one when it reads this."""
    if not isinstance(refusal, UnsupportedParameter) or refusal.param != "thread":
        return {}
    return {"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}}


def event(refusal: Refusal, request_id: str) -> bytes:
    """What ends a stream that failed after its first byte; no `message_stop` follows."""
    return named("error", compact(envelope(refusal, request_id)))
