"""A prompt as the beginning of its answers, where its tokens are to be told as theirs are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models.decode.logprobs import Scored
from server.backend import Tokenizer
from server.events import Content
from tools.events import Token

FIRST = Scored(math.nan, ())
"""Of the first token nothing can be said: nothing came before it."""


@dataclass(frozen=True)
class Echo:
    """The prompt of one turn."""

    tokenizer: Tokenizer
    ids: tuple[int, ...]
    unshown: int
    """So many ids at the beginning are no part of the text that was asked with: they are tokens without text."""
    choices: int
    """So many answers begin with it."""

    def content(self, scores: Sequence[Scored]) -> Content:
        """The text and its tokens; `scores` are those of all but the first, whose logarithm is NaN."""
        decoder, bytes_of = self.tokenizer.decoder(), self.tokenizer.bytes_of
        tokens: list[Token] = []
        for place, (id_, scored) in enumerate(zip(self.ids, (FIRST, *scores), strict=True)):
            data = bytes_of(id_) if place >= self.unshown else b""
            text = decoder.push((id_,)) if place >= self.unshown else ""
            text += decoder.finish() if place == len(self.ids) - 1 else ""
            likeliest = tuple((bytes_of(best), logprob) for best, logprob in scored.top)
            tokens.append(Token(text, data, scored.logprob, likeliest))
        return Content("".join(token.text for token in tokens), tuple(tokens))
