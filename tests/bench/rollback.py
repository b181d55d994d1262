"""What it costs to append a block past the window and take most of it back: ours against mlx-lm's concat-and-trim."""

import statistics
import time
from collections.abc import Callable

import mlx.core as mx
from mlx_lm.models.cache import RotatingKVCache

from models.cache import WindowCache

HEADS, HEAD_DIM, WINDOW, ROWS, KEPT = 8, 128, 512, 16, 5


def _rows(count: int) -> mx.array:
    return mx.random.normal((1, HEADS, count, HEAD_DIM))


def _seconds(cycle: Callable[[], None], cycles: int) -> float:
    began = time.process_time()
    for _ in range(cycles):
        cycle()
    return (time.process_time() - began) / cycles


def rollback_seconds(cycles: int = 40, repeats: int = 7) -> dict[str, float]:
    """CPU microseconds for a layer of 8 heads of 128, window 512, 16 rows of which 5 stay: medians of runs in turn."""
    block, prompt = _rows(ROWS), _rows(WINDOW + 100)
    own, theirs = WindowCache(WINDOW, slack=ROWS), RotatingKVCache(max_size=WINDOW, keep=0)
    mx.eval(block, own.update(prompt, prompt), theirs.update_and_fetch(prompt, prompt))

    def ours() -> None:
        seen = own.update(block, block)
        own.rollback(ROWS - KEPT)
        mx.eval(*seen, *own.arrays)

    def concat_and_trim() -> None:
        seen = theirs.update_and_fetch(block, block)
        theirs.trim(ROWS - KEPT)
        mx.eval(*seen, theirs.state)

    timed = [(_seconds(ours, cycles), _seconds(concat_and_trim, cycles)) for _ in range(repeats)]
    mine, other = map(statistics.median, zip(*timed, strict=True))
    return {"ours_us": mine * 1e6, "mlx_lm_us": other * 1e6, "ratio": mine / other}
