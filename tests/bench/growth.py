"""What a long context costs: `python -m tests.bench.growth [--json FILE] [--check]`.

A round at 8k tokens over one at 512, on a small random target with two full layers and six sliding ones; caches are
filled with random rows, since reading eight thousand tokens would take minutes here. And the bytes of caches.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx

from models.cache import FullCache, WindowCache
from models.checkpoint import embedded_path
from models.config import TargetConfig
from models.contract import Row
from models.laguna import Laguna
from tests.bench.blas import environment
from tests.bench.cache_bytes import memory
from tests.bench.goals import Figures, long_contexts
from tests.bench.lossless import ABSENT
from tests.bench.running import parser, run

ROWS = 16
SHORT, LONG = 512, 8192
WINDOW = 512
LAYERS = 8
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 64
REPEATS = 7
CHUNK = 512

Step = Callable[[], None]


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


def growth(repeats: int = REPEATS) -> dict[str, Any]:
    """CPU milliseconds of a round at both lengths in turn, by engine: a block verified and taken back, and one row.

    mlx-lm has no way back past the window, so only its single rows are there; mlx-vlm's blocks if it is installed.
    """
    fields = config()
    mx.random.seed(0)
    target = Laguna(TargetConfig.from_dict(fields))
    mx.eval(target.parameters())
    arms: dict[str, Callable[[int], Step]] = {
        "ours": lambda length: _ours(target, length, ROWS),
        "ours_plain": lambda length: _ours(target, length, 1),
        "mlx_lm_plain": _mlx_lm(fields),
    }
    if find_spec("mlx_vlm") is not None:
        arms["mlx_vlm"] = _mlx_vlm(fields)
    steps = {(name, length): arm(length) for name, arm in arms.items() for length in (SHORT, LONG)}
    times: dict[tuple[str, int], list[float]] = {which: [] for which in steps}
    for repeat in range(repeats + 1):
        for which in sorted(steps, reverse=repeat % 2 == 1):
            times[which].append(_seconds(steps[which]))
    return {name: _figures(times[name, SHORT][1:], times[name, LONG][1:]) for name in arms}


def _figures(short: list[float], long: list[float]) -> dict[str, float]:
    brief, full = statistics.median(short), statistics.median(long)
    return {"short_ms": brief * 1e3, "long_ms": full * 1e3, "ratio": full / brief}


def _seconds(step: Step) -> float:
    """Of CPU time: what others do on the machine must not look like work of ours."""
    began = time.process_time()
    step()
    return time.process_time() - began


def _ours(target: Laguna, length: int, rows: int) -> Step:
    caches = target.make_caches(2 * ROWS, length + ROWS)
    for cache in caches:
        assert isinstance(cache, FullCache | WindowCache)
        for start in range(0, length, CHUNK):
            part = _rows(min(CHUNK, length - start))
            mx.eval(cache.update(part, part))
    ids = mx.arange(rows) + 30

    def step() -> None:
        logits = target(ids, [Row(0, rows, caches)]).logits
        mx.argmax(logits, axis=-1).tolist()
        for cache in caches:
            cache.rollback(rows - 1)

    return step


def _mlx_lm(fields: dict[str, Any]) -> Callable[[int], Step]:
    from mlx_lm.models.laguna import Model, ModelArgs

    model = Model(ModelArgs.from_dict(fields))
    mx.eval(model.parameters())

    def filled(length: int) -> Step:
        caches = model.make_cache()
        for cache in caches:
            for start in range(0, length, CHUNK):
                part = _rows(min(CHUNK, length - start))
                mx.eval(cache.update_and_fetch(part, part))

        def step() -> None:
            mx.argmax(model(mx.array([[30]]), cache=caches), axis=-1).tolist()

        return step

    return filled


def _mlx_vlm(fields: dict[str, Any]) -> Callable[[int], Step]:
    from mlx_vlm.models.laguna import ModelConfig
    from mlx_vlm.models.laguna.language import LanguageModel
    from mlx_vlm.speculative.cache_state import commit_speculative_round
    from mlx_vlm.speculative.common import verify_forward

    model = LanguageModel(ModelConfig.from_dict(fields))
    mx.eval(model.parameters())

    def filled(length: int) -> Step:
        caches = model.make_cache()
        for cache in caches:
            for start in range(0, length, CHUNK):
                rows = _rows(min(CHUNK, length - start))
                mx.eval(cache.update_and_fetch(rows, rows))
        ids = mx.arange(ROWS)[None] + 30

        def step() -> None:
            output, state = verify_forward(model, ids, caches)
            mx.argmax(output.logits, axis=-1).tolist()
            commit_speculative_round(model, caches, state, 0, ROWS)

        return step

    return filled


def measured(library: Path | None, options: argparse.Namespace) -> Figures:
    """The figures of a child process that uses this BLAS."""
    command = [sys.executable, "-c", f"import tests.bench.growth as g; g.tell({options.repeats})"]
    child = subprocess.run(command, env=environment(library), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(child.stdout)


def tell(repeats: int) -> None:
    """Print all figures as JSON."""
    print(json.dumps({"growth": growth(repeats), "memory": memory()}))
    mx.clear_streams()


def table(figures: Figures) -> Mapping[str, str]:
    """One run as text."""
    rounds, held = figures["growth"].items(), figures["memory"].items()
    return (
        {
            f"CPU ms at {LONG} / {SHORT}, {name}": "{long_ms:.1f} / {short_ms:.1f} = {ratio:.2f}".format(**found)
            for name, found in rounds
        }
        | {
            f"cache bytes over theory, {name}": (
                "{peak:.3f} at most, {held:.3f} in the end, {peak_per_token:.3f} a further token".format(**found)
            )
            for name, found in held
        }
        | ({} if "mlx_vlm" in figures["growth"] else {"mlx-vlm": ABSENT})
    )


def main() -> None:
    """Measure, print, write, check."""
    run(parser("growth", "Measure long contexts.", repeats=15).parse_args(), measured, table, long_contexts)


if __name__ == "__main__":
    main()
