"""How likely each token of a text was, in the words of OpenAI's completions."""

import math
from collections.abc import Iterable
from typing import Any

from server.api.counts import LOWEST
from server.events import Token


def logprobs(tokens: Iterable[Token], offset: int) -> dict[str, Any]:
    """The `logprobs` object of a text that begins at character `offset`. The tokens' texts join to the text.

    Of a prompt's first token, which nothing came before, nothing is said but its text.
    """
    told: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for token in tokens:
        told["tokens"].append(token.text)
        first = math.isnan(token.logprob)
        told["token_logprobs"].append(None if first else max(token.logprob, LOWEST))
        told["top_logprobs"].append(None if first else _likeliest(token))
        told["text_offset"].append(offset)
        offset += len(token.text)
    return told


def _likeliest(token: Token) -> dict[str, float]:
    """Those that were asked for, and the token itself: one more where it is none of them."""
    others = {_spelt(data): max(logprob, LOWEST) for data, logprob in token.likeliest if data != token.data}
    return others | {token.text: max(token.logprob, LOWEST)}


def _spelt(data: bytes) -> str:
    """A token's text; part of a character is spelt byte by byte, as OpenAI does."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
