"""How likely the model itself held each id: its own distribution, before bias, penalties, masks and temperature."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class Scored:
    """One emitted id's log probability (natural), and the likeliest ids at its place, likeliest first."""

    logprob: float
    top: tuple[tuple[int, float], ...]


def score_width(top: int) -> int:
    """Numbers that one row takes in a packed read."""
    return 1 + 2 * top


def score(logits: mx.array, drawn: mx.array, top: int) -> mx.array:
    """One request's rows, flat int32 [R * score_width(top)], so that they ride in the one host read of a round.

    Args:
        logits: [R, vocabulary], as the target gave them.
        drawn: the id each row drew, int32 [R].
        top: alternatives a row, at most the vocabulary.
    """
    logits = logits.astype(mx.float32)
    best = mx.argpartition(logits, kth=-top, axis=-1)[:, -top:].astype(mx.int32) if top else None
    ids = drawn[:, None] if best is None else mx.concatenate([drawn[:, None], best], axis=-1)
    scores = mx.take_along_axis(logits, ids, axis=-1) - mx.logsumexp(logits, axis=-1, keepdims=True)
    packed = scores.view(mx.int32)
    return (packed if best is None else mx.concatenate([packed, best], axis=-1)).flatten()


def read_scores(packed: Sequence[int], top: int) -> list[Scored]:
    """What `score` packed, row by row."""
    table = np.array(packed, dtype=np.int32).reshape(-1, score_width(top))
    values, ids = table[:, : 1 + top].view(np.float32).tolist(), table[:, 1 + top :].tolist()
    return [
        Scored(own[0], tuple(sorted(zip(best, own[1:], strict=True), key=lambda pair: (-pair[1], pair[0]))))
        for own, best in zip(values, ids, strict=True)
    ]
