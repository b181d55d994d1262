"""One row's attention over its keys: MLX's fused kernel, or on the CPU, which has none, what is faster there.

On the CPU `mx.fast.scaled_dot_product_attention` is made of plain operations: one product a query head, all scores at
once, and a softmax whose `exp` takes about 20 ns a number, three times as long as `power`. There heads that share their
keys become one product, powers of e take the place of `exp`, and a long row goes in pieces that look at no later keys.
The float32 result is the same up to rounding.
"""

import math
from collections.abc import Callable
from functools import cache

import mlx.core as mx

Attend = Callable[[mx.array, mx.array, mx.array, float], mx.array]
"""Queries [1, heads, T, head_dim], keys and values [1, kv_heads, K, head_dim] and a scale to [1, heads, T, head_dim].

The queries are the last T of the K positions.
"""

SHORT = 128
"""Keys in whose window more operations cost more than they save."""

PIECE = 64
"""Queries of a long row that go together on the CPU."""


def attend_over(window: int | None, dtype: mx.Dtype) -> Attend:
    """What attends for rows whose queries each see the last `window` keys (None: all before them).

    Steps and blocks of a layer go the same way, so that they compute the same.
    """
    if not on_cpu() or dtype != mx.float32:
        return _fused(window)
    return _in_pieces(window, _composed(window) if window is None or window > SHORT else _fused(window))


def on_cpu() -> bool:
    """Whether MLX computes on the CPU."""
    return mx.default_device() == mx.Device(mx.cpu)


def _fused(window: int | None) -> Attend:
    """MLX's own kernel."""
    seen = _masks(window)

    def attend(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
        length, known = queries.shape[2], keys.shape[2]
        whole = window is None or known <= window
        mask = None if length == 1 else "causal" if whole else seen(length, known)
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)

    return attend


def _composed(window: int | None) -> Attend:
    """Products of all heads that share their keys, and powers of e."""
    seen = _masks(window)

    def attend(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
        kv_heads, length = keys.shape[1], queries.shape[2]
        together = queries.shape[1] // kv_heads
        joined = (queries * scale).reshape(1, kv_heads, together * length, -1)
        scores = joined @ keys.swapaxes(-1, -2)
        if length > 1:
            apart = scores.reshape(kv_heads, together, length, -1)
            scores = mx.where(seen(length, keys.shape[2]), apart, -math.inf).reshape(scores.shape)
        powers = mx.power(mx.array(math.e), scores - scores.max(axis=-1, keepdims=True))
        return ((powers @ values) / powers.sum(axis=-1, keepdims=True)).reshape(queries.shape)

    return attend


def _in_pieces(window: int | None, attend: Attend) -> Attend:
    """The same for rows of any length, without the keys that a piece of them cannot see."""

    def pieces(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
        length, before = queries.shape[2], keys.shape[2] - queries.shape[2]
        if length <= PIECE:
            return attend(queries, keys, values, scale)
        parts = []
        for start in range(0, length, PIECE):
            stop = min(start + PIECE, length)
            first = 0 if window is None else max(0, before + start + 1 - window)
            near = slice(first, before + stop)
            parts.append(attend(queries[:, :, start:stop], keys[:, :, near], values[:, :, near], scale))
        return mx.concatenate(parts, axis=2)

    return pieces


def _masks(window: int | None) -> Callable[[int, int], mx.array]:
    """Which of so many keys each of so many queries sees: bool [queries, keys], made once for all layers."""

    @cache
    def seen(length: int, known: int) -> mx.array:
        keys = mx.arange(known)
        queries = keys[known - length :, None]
        return keys <= queries if window is None else (keys <= queries) & (keys > queries - window)

    return seen
