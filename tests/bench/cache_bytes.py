"""What a session's caches take while a prompt is read and answered, ours and mlx-lm's, over what its rows take."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, RotatingKVCache

from models.cache import FullCache, WindowCache

FULL, SLIDING, WINDOW = 10, 30, 512
"""Layers as in XS-2.1."""
HEADS, WIDTH = 2, 32
ROW = 2 * HEADS * WIDTH * 4
"""Bytes of one position in one layer: keys and values in float32."""
CHUNK, BLOCK, ANSWER = 512, 16, 256
SHORT, LONG = 1024, 8192

Append = Callable[[mx.array], None]
"""Takes in keys, which are the values too."""


def memory() -> dict[str, Any]:
    """By engine: bytes at most and in the end over `theory`, and what a further token adds to the most over its rows.

    Theory is that every full layer holds a row for each token, and every other one its window.
    """
    return {name: _figures(make) for name, make in (("ours", _ours), ("mlx_lm", _mlx_lm))}


def theory(tokens: int) -> int:
    """Bytes of the rows that count."""
    return ROW * (FULL * tokens + SLIDING * min(WINDOW, tokens))


def _figures(make: Callable[[int], list[Append]]) -> dict[str, float]:
    (short, _), (long, held) = (_taken(make, tokens) for tokens in (SHORT, LONG))
    added = theory(LONG) - theory(SHORT)
    return {
        "held": held / theory(LONG),
        "peak": long / theory(LONG),
        "peak_per_token": (long - short) / added,
        "tokens": LONG,
    }


def _taken(make: Callable[[int], list[Append]], tokens: int) -> tuple[int, int]:
    """Most bytes on the way to so many tokens, the last `ANSWER` of them one by one; and bytes held then."""
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    layers, prompt = make(tokens), tokens - ANSWER
    lengths = [min(CHUNK, prompt - start) for start in range(0, prompt, CHUNK)] + [1] * ANSWER
    for length in lengths:
        rows = mx.zeros((1, HEADS, length, WIDTH))
        for append in layers:
            append(rows)
    del rows
    return mx.get_peak_memory() - before, mx.get_active_memory() - before


def _ours(tokens: int) -> list[Append]:
    caches: list[FullCache | WindowCache] = [FullCache(tokens) for _ in range(FULL)]
    caches += [WindowCache(WINDOW, slack=2 * BLOCK) for _ in range(SLIDING)]

    def appending(cache: FullCache | WindowCache) -> Append:
        def append(rows: mx.array) -> None:
            cache.update(rows, rows)
            mx.eval(cache.arrays)

        return append

    return list(map(appending, caches))


def _mlx_lm(tokens: int) -> list[Append]:
    caches: list[KVCache | RotatingKVCache] = [KVCache() for _ in range(FULL)]
    caches += [RotatingKVCache(max_size=WINDOW, keep=0) for _ in range(SLIDING)]

    def appending(cache: KVCache | RotatingKVCache) -> Append:
        def append(rows: mx.array) -> None:
            cache.update_and_fetch(rows, rows)
            mx.eval(cache.keys, cache.values)

        return append

    return list(map(appending, caches))
