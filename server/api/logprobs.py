"""How likely each token of a text was, in OpenAI's words."""

from collections.abc import Iterable
from typing import Any

from server.api.counts import LOWEST
from server.events import Token


def logprobs(tokens: Iterable[Token]) -> dict[str, Any]:
    """The `logprobs` object of a choice. The tokens' texts join to its content, and their bytes to its bytes."""
    return {"content": [entry(token) for token in tokens], "refusal": None}


def entry(token: Token) -> dict[str, Any]:
    """One token, and what else could have come."""
    likeliest = [_told(data.decode(errors="replace"), data, logprob) for data, logprob in token.likeliest]
    return _told(token.text, token.data, token.logprob) | {"top_logprobs": likeliest}


def _told(text: str, data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": max(logprob, LOWEST), "bytes": list(data)}
