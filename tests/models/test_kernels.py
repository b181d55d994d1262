"""Attention of one row: MLX's kernel and what takes its place on the CPU compute the same."""

import math

import mlx.core as mx
import numpy as np
import pytest

from models import kernels
from models.kernels import PIECE, attend_over

HEADS, KV_HEADS, DIM, SCALE = 6, 2, 32, 0.3
LONG = 6 * PIECE


def expected(queries: mx.array, keys: mx.array, values: mx.array, window: int | None) -> np.ndarray:
    """The textbook's attention in float64: the queries are the last of all positions."""
    own, theirs, carried = (np.array(part.astype(mx.float32), np.float64)[0] for part in (queries, keys, values))
    length, known = own.shape[1], theirs.shape[1]
    at = np.arange(known - length, known)[:, None]
    seen = (np.arange(known) <= at) & (np.arange(known) > at - (window or math.inf))
    out = []
    for head in range(HEADS):
        scores = np.where(seen, own[head] @ theirs[head // (HEADS // KV_HEADS)].T * SCALE, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out.append(weights / weights.sum(-1, keepdims=True) @ carried[head // (HEADS // KV_HEADS)])
    return np.stack(out)[None]


def states(length: int, known: int, dtype: mx.Dtype) -> tuple[mx.array, mx.array, mx.array]:
    """Queries, keys and values, as large as normed ones."""
    sizes = ((HEADS, length), (KV_HEADS, known), (KV_HEADS, known))
    made = [mx.random.normal((1, *size, DIM), key=mx.random.key(i)).astype(dtype) for i, size in enumerate(sizes)]
    return made[0], made[1], made[2]


PLACES = [
    (0, 1),
    (0, 5),
    (7, 1),
    (3, 4),
    (40, 1),
    (40, 16),
    (63, 2),
    (LONG, 1),
    (LONG, 8),
    (0, 150),
    (30, 130),
    (LONG, 65),
]


@pytest.mark.parametrize("window", [None, 8, 48, 2 * PIECE + 1])
@pytest.mark.parametrize(("offset", "length"), PLACES)
@pytest.mark.parametrize("backend", ["cpu", "fused"])
def test_every_row_attends_to_what_its_queries_see(
    backend: str, offset: int, length: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "fused":
        monkeypatch.setattr(kernels, "on_cpu", lambda: False)
    known = offset + length if window is None else min(offset, window - 1) + length
    queries, keys, values = states(length, known, mx.float32)
    found = attend_over(window, mx.float32).row(queries, keys, values, SCALE)
    np.testing.assert_allclose(np.array(found), expected(queries, keys, values, window), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("backend", ["cpu", "fused"])
def test_each_session_sees_its_own_keys_wherever_they_lie_among_others(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "fused":
        monkeypatch.setattr(kernels, "on_cpu", lambda: False)
    spans = [(0, 9), (3, 40), (12, 13)]
    each = [states(1, stop - start, mx.float32) for start, stop in spans]
    keys, values = (
        mx.concatenate(
            [
                mx.pad(part[i], [(0, 0), (0, 0), (a, 50 - b), (0, 0)], constant_values=7.0)
                for part, (a, b) in zip(each, spans, strict=True)
            ]
        )
        for i in (1, 2)
    )
    at = mx.arange(50)
    seen = mx.stack([(at >= start) & (at < stop) for start, stop in spans])[:, None, None]
    found = attend_over(None, mx.float32).each(mx.concatenate([part[0] for part in each]), keys, values, SCALE, seen)
    for place, part in enumerate(each):
        np.testing.assert_allclose(np.array(found[place : place + 1]), expected(*part, None), rtol=1e-5, atol=2e-6)


def test_scores_beyond_what_a_power_holds_do_not_overflow() -> None:
    queries, keys, values = states(4, 40, mx.float32)
    found = attend_over(None, mx.float32).row(queries * 100, keys * 100, values, SCALE)
    np.testing.assert_allclose(np.array(found), expected(queries * 100, keys * 100, values, None), rtol=1e-4)


def test_other_dtypes_go_to_the_kernel_that_a_gpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    kernel = mx.fast.scaled_dot_product_attention

    def watched(*args: mx.array, scale: float, mask: str | None) -> mx.array:
        asked.append(mask)
        return kernel(*args, scale=scale, mask=mask)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watched)
    queries, keys, values = states(4, 40, mx.bfloat16)
    found = attend_over(None, mx.bfloat16).row(queries, keys, values, SCALE)
    assert (asked, found.dtype) == (["causal"], mx.bfloat16)
    np.testing.assert_allclose(
        np.array(found.astype(mx.float32)), expected(queries, keys, values, None), rtol=0.02, atol=0.02
    )
