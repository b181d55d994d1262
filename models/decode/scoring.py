"""How likely the model held each token of a prompt: a reading of its own beside the batch, a chunk a round."""

import mlx.core as mx
import numpy as np

from models.contract import LayerCache, Row, Target
from models.decode.logprobs import Scored, read_scores, score

CHUNK = 64
"""Prompt tokens in one pass: each of its rows needs logits over the whole vocabulary."""


class Scoring:
    """One prompt's reading. Its caches go when it is over; the answer reads the prompt anew, or resumes it."""

    def __init__(self, target: Target, prompt: tuple[int, ...], top: int, chunk: int = CHUNK) -> None:
        """`top` likeliest ids are told beside each token; nothing runs before the first `advance`."""
        self._target, self._prompt, self._top, self._chunk = target, prompt, top, chunk
        self._caches: list[LayerCache] = []
        self._read = 0
        self.scores: list[Scored] = []
        """One for each token after the first, which nothing came before."""

    def advance(self) -> bool:
        """Read a chunk, and wait for it; whether that was the last."""
        left = len(self._prompt) - 1 - self._read
        count = min(left, self._chunk)
        if count:
            start = self._read
            # `make_caches` wants the rows that may be taken back: none are.
            caches = self._caches = self._caches or list(self._target.make_caches(0))
            ids = mx.array(self._prompt[start : start + count], dtype=mx.int32)
            following = mx.array(self._prompt[start + 1 : start + count + 1], dtype=mx.int32)
            output = self._target(ids, [Row(0, count, caches)])
            packed = np.asarray(score(output.logits, following, self._top)).tolist()
            self.scores += read_scores(packed, self._top)
            self._read += count
        over = count == left
        self._caches = [] if over else self._caches
        return over
