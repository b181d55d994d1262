"""Attention out of plain operations, for the device that has no kernel of its own for it: the CPU.

MLX composes it there, too, but with twice the operations, and with an exponential that takes three times as long as the
C library's power.
"""

import math

import mlx.core as mx


def composes() -> bool:
    """Whether MLX would compose its fused operations on the device at hand."""
    return mx.default_device() == mx.Device(mx.cpu)


def attend(queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | None) -> mx.array:
    """Softmax attention: [1, heads, L, head_dim] over [1, kv_heads, S, head_dim]; `mask` [L, S] is added to scores.

    All queries of a key head are rows of one product.
    """
    _, heads, length, head_dim = queries.shape
    kv_heads, seen = keys.shape[1:3]
    rows = (queries * scale).reshape(1, kv_heads, -1, head_dim)
    scores = rows @ keys.swapaxes(-1, -2)
    if mask is not None:
        scores = (scores.reshape(1, kv_heads, -1, length, seen) + mask).reshape(scores.shape)
    shares = mx.power(math.e, scores - scores.max(axis=-1, keepdims=True))
    out = (shares @ values) / shares.sum(axis=-1, keepdims=True)
    return out.astype(queries.dtype).reshape(1, heads, length, head_dim)
