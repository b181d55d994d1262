"""A refusal as an answer, in the words of the dialect in which was asked."""

from collections.abc import Mapping

from fastapi import Request

from server.api.identity import HEADERS, request_id
from server.api.messages import refusal as anthropic
from server.api.wire import Json
from server.errors import Refusal
from server.verdicts import envelope, headers, verdict


def refused(request: Request, refusal: Refusal, extra: Mapping[str, str] | None = None) -> Json:
    """The error answer, with what the SDKs read to decide on another try."""
    id_ = request_id(request)
    row = verdict(refusal)
    request.state.refused = row.code or row.type
    spoken = anthropic.envelope(refusal, id_) if anthropic.owns(request.url.path) else envelope(refusal)
    return Json(spoken, row.status, headers(refusal) | dict.fromkeys(HEADERS, id_) | dict(extra or {}))
