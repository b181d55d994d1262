"""What a long context costs: verifying a block at 8k against 512 tokens, and the bytes that a token's cache takes.

A small random target with the heads of the real ones; caches are filled with random rows, since reading eight thousand
tokens would take minutes here.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx

from models.cache import FullCache, WindowCache
from models.checkpoint import embedded_path
from models.config import TargetConfig
from models.contract import Row
from models.laguna import Laguna

ROWS = 16
SHORT, LONG = 512, 8192
WINDOW = 512
LAYERS = 8
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 64
REPEATS = 7
CHUNK = 512

Verify = Callable[[], None]


def config() -> dict[str, Any]:
    """The embedded target's, wider: a quarter of the layers see everything, the others 512 tokens."""
    fields: dict[str, Any] = json.loads((embedded_path() / "config.json").read_text())
    kinds = ["full_attention", *["sliding_attention"] * 3] * (LAYERS // 4)
    return fields | {
        "hidden_size": 256,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_attention_heads_per_layer": [HEADS] * LAYERS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "sliding_window": WINDOW,
        "layer_types": kinds,
        "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
        "max_position_embeddings": 4 * LONG,
    }


def _rows(count: int) -> mx.array:
    return mx.random.normal((1, KV_HEADS, count, HEAD_DIM)) * 0.1


def growth() -> dict[str, Any]:
    """CPU milliseconds to verify a block and take it back, at both lengths in turn; mlx-vlm's too if it is there."""
    fields = config()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(fields))
        mx.random.seed(0)
        target = Laguna(TargetConfig.from_path(Path(folder)))
    mx.eval(target.parameters())
    arms: dict[str, Callable[[int], Verify]] = {"ours": lambda length: _ours(target, length)}
    if find_spec("mlx_vlm") is not None:
        arms["mlx_vlm"] = _mlx_vlm(fields)
    verifies = {(name, length): arm(length) for name, arm in arms.items() for length in (SHORT, LONG)}
    times: dict[tuple[str, int], list[float]] = {which: [] for which in verifies}
    for repeat in range(REPEATS + 1):
        for which in sorted(verifies, reverse=repeat % 2 == 1):
            times[which].append(_seconds(verifies[which]))
    return {name: _figures(times[name, SHORT][1:], times[name, LONG][1:]) for name in arms}


def _figures(short: list[float], long: list[float]) -> dict[str, float]:
    brief, full = statistics.median(short), statistics.median(long)
    return {"short_ms": brief * 1e3, "long_ms": full * 1e3, "ratio": full / brief}


def _seconds(verify: Verify) -> float:
    """Of CPU time: what others do on the machine must not look like work of ours."""
    began = time.process_time()
    verify()
    return time.process_time() - began


def _ours(target: Laguna, length: int) -> Verify:
    caches = target.make_caches(ROWS)
    for cache in caches:
        assert isinstance(cache, FullCache | WindowCache)
        for start in range(0, length, CHUNK):
            rows = _rows(min(CHUNK, length - start))
            mx.eval(cache.update(rows, rows))
    ids = mx.arange(ROWS) + 30

    def verify() -> None:
        logits = target(ids, [Row(0, ROWS, caches)]).logits
        mx.argmax(logits, axis=-1).tolist()
        for cache in caches:
            cache.rollback(ROWS - 1)

    return verify


def _mlx_vlm(fields: dict[str, Any]) -> Callable[[int], Verify]:
    from mlx_vlm.models.laguna import ModelConfig
    from mlx_vlm.models.laguna.language import LanguageModel
    from mlx_vlm.speculative.cache_state import commit_speculative_round
    from mlx_vlm.speculative.common import verify_forward

    model = LanguageModel(ModelConfig.from_dict(fields))
    mx.eval(model.parameters())

    def filled(length: int) -> Verify:
        caches = model.make_cache()
        for cache in caches:
            for start in range(0, length, CHUNK):
                rows = _rows(min(CHUNK, length - start))
                mx.eval(cache.update_and_fetch(rows, rows))
        ids = mx.arange(ROWS)[None] + 30

        def verify() -> None:
            output, state = verify_forward(model, ids, caches)
            mx.argmax(output.logits, axis=-1).tolist()
            commit_speculative_round(model, caches, state, 0, ROWS)

        return verify

    return filled


def memory(full: int = 10, sliding: int = 30, tokens: int = LONG, window: int = WINDOW) -> dict[str, float]:
    """Bytes while one session's caches grow by chunks of 512 rows, over what its rows take; layers as in XS-2.1."""
    heads, width = 2, 32
    row = 2 * heads * width * 4
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    layers: list[FullCache | WindowCache] = [
        *(FullCache() for _ in range(full)),
        *(WindowCache(window, slack=2 * ROWS) for _ in range(sliding)),
    ]
    for start in range(0, tokens, CHUNK):
        for cache in layers:
            rows = mx.zeros((1, heads, min(CHUNK, tokens - start), width))
            cache.update(rows, rows)
            mx.eval(cache.arrays)
    theory = row * (full * tokens + sliding * min(window, tokens))
    return {
        "held": (mx.get_active_memory() - before) / theory,
        "peak": (mx.get_peak_memory() - before) / theory,
        "tokens": tokens,
    }
