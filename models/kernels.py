"""Attention over keys, of one session or of several: MLX's fused kernel, or on the CPU, which has none, what is faster.

On the CPU `mx.fast.scaled_dot_product_attention` is made of plain operations: one product a query head, all scores at
once, and a softmax whose `exp` takes about 20 ns a number, three times as long as `power`. There heads that share their
keys become one product, powers of e take the place of `exp`, and a long row goes in pieces that look at no later keys.
The float32 result is the same up to rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import mlx.core as mx

Seen = Callable[[int, int], mx.array]
"""Numbers of queries and keys to bool [queries, keys]."""

PIECE = 64
"""Queries of a long row that go together on the CPU."""


@dataclass(frozen=True)
class Attend:
    """How the queries of a layer attend. Steps and blocks go the same way, so that they compute the same."""

    row: Callable[[mx.array, mx.array, mx.array, float], mx.array]
    """One session's rows: queries [1, heads, T, head_dim], which are the last T of the K positions of keys and values
    [1, kv_heads, K, head_dim], and a scale to [1, heads, T, head_dim]."""
    each: Callable[[mx.array, mx.array, mx.array, float, mx.array], mx.array]
    """A row of each of B sessions: queries [B, heads, 1, head_dim], keys and values [B, kv_heads, K, head_dim], a scale
    and which keys each query sees, bool [B, 1, 1, K], to [B, heads, 1, head_dim]."""


def attend_over(window: int | None, dtype: mx.Dtype) -> Attend:
    """What attends where queries each see the last `window` keys (None: all before them)."""
    seen = _masks(window)
    if not on_cpu() or dtype != mx.float32:
        return Attend(partial(_fused, window, seen), _fused_each)
    return Attend(partial(_in_pieces, window, seen), _composed)


def on_cpu() -> bool:
    """Whether MLX computes on the CPU."""
    return mx.default_device() == mx.Device(mx.cpu)


def _fused(
    window: int | None, seen: Seen, queries: mx.array, keys: mx.array, values: mx.array, scale: float
) -> mx.array:
    """MLX's own kernel over one session's rows."""
    length, known = queries.shape[2], keys.shape[2]
    whole = window is None or known <= window
    mask = None if length == 1 else "causal" if whole else seen(length, known)
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)


def _fused_each(queries: mx.array, keys: mx.array, values: mx.array, scale: float, seen: mx.array) -> mx.array:
    """MLX's own kernel over rows of several sessions."""
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=seen)


def _composed(queries: mx.array, keys: mx.array, values: mx.array, scale: float, seen: mx.array | None) -> mx.array:
    """Products of all heads that share their keys, and powers of e; `seen` fits [B, kv_heads, heads each, T, K]."""
    (batch, kv_heads, known, _), length = keys.shape, queries.shape[2]
    joined = (queries * scale).reshape(batch, kv_heads, -1, queries.shape[3])
    scores = joined @ keys.swapaxes(-1, -2)
    if seen is not None:
        apart = scores if length == 1 else scores.reshape(batch, kv_heads, -1, length, known)
        scores = mx.where(seen, apart, -math.inf).reshape(scores.shape)
    powers = mx.power(mx.array(math.e), scores - scores.max(axis=-1, keepdims=True))
    return ((powers @ values) / powers.sum(axis=-1, keepdims=True)).reshape(queries.shape)


def _in_pieces(
    window: int | None, seen: Seen, queries: mx.array, keys: mx.array, values: mx.array, scale: float
) -> mx.array:
    """One session's rows, a long one without the keys that a piece of it cannot see."""
    length, before = queries.shape[2], keys.shape[2] - queries.shape[2]
    parts = []
    for start in range(0, length, PIECE):
        stop = min(start + PIECE, length)
        first = 0 if window is None else max(0, before + start + 1 - window)
        near, count = slice(first, before + stop), stop - start
        part = (
            (queries, keys, values)
            if count == length
            else (queries[:, :, start:stop], keys[:, :, near], values[:, :, near])
        )
        parts.append(_composed(*part, scale, seen(count, part[1].shape[2]) if count > 1 else None))
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)


def _masks(window: int | None) -> Seen:
    """Which of so many keys each of so many queries sees: bool [queries, keys], made once for all layers."""

    @cache
    def seen(length: int, known: int) -> mx.array:
        keys = mx.arange(known)
        queries = keys[known - length :, None]
        return keys <= queries if window is None else (keys <= queries) & (keys > queries - window)

    return seen
