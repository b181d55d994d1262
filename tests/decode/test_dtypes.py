"""A whole round in bfloat16, written down but not run: no product is wider, nor is anything remembered."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from models.checkpoint import load_speculator, load_target
from models.contract import LayerCache
from models.decode.session import Sampling, Tapped
from models.decode.speculate import Part, absorb, run
from models.dflash_laguna import DFlashLaguna
from models.laguna import Laguna
from models.loading import DEFAULTS, Loading
from tests.models import test_compressed as compressed
from tests.models import test_mlx_packing as mlx_packing
from tests.models import test_packed_speculator as packed_speculator
from tests.models.packed_layouts import WIDE
from tests.models.tiny_checkpoint import speculator_tensors, write_checkpoint, write_pair

NARROW = mx.bfloat16
PRODUCTS = ("Matmul", "AddMM", "QuantizedMatmul", "GatherMM", "GatherQMM", "ScaledDotProductAttention")
PROMPT = 40
HOT = Sampling(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02, seed=3)

Write = Callable[[Path], Path]


def affine(choice: mlx_packing.Choice, settings: dict[str, Any]) -> Write:
    return lambda folder: mlx_packing.packed(folder, choice, quantization=settings)[0]


FOUR_BITS = mlx_packing.affine(4, 64)
TARGETS: dict[str, tuple[Write, Loading]] = {
    "plain": (lambda folder: write_pair(folder, **WIDE)[0], DEFAULTS),
    "keys and values in 8 bits": (lambda folder: write_pair(folder, **WIDE)[0], Loading(kv_bits=8)),
    "affine": (affine(mlx_packing.everything(FOUR_BITS), FOUR_BITS), DEFAULTS),
    "nvfp4, MLX's": (affine(mlx_packing.routed(mlx_packing.NVFP4), mlx_packing.NVFP4), DEFAULTS),
    "mxfp8": (affine(mlx_packing.routed(mlx_packing.MXFP8), mlx_packing.MXFP8), DEFAULTS),
    "FP8 in 8 bits": (lambda folder: compressed.written(folder, compressed.FP8), Loading(fp8_bits=8)),
} | {name: (lambda folder, name=name: compressed.written(folder, name), DEFAULTS) for name in compressed.CASES}
SPECULATORS = [(layout, DEFAULTS) for layout in packed_speculator.LAYOUTS] + [("INT8", Loading(speculator_bits=4))]


class Seen:
    """What a graph is made of."""

    def __init__(self) -> None:
        self.dtypes: set[mx.Dtype] = set()
        self.products: dict[str, set[mx.Dtype]] = {}
        self.remembered: set[mx.Dtype] = set()

    def note(self, told: dict[str, Any]) -> None:
        """Take in one entry of the graph."""
        if told["type"] == "constants":
            self.dtypes |= {array.dtype for _, array in told["constants"]}
        elif told["type"] == "primitive":
            made = {dtype for _, _, dtype in told["outputs"]}
            self.dtypes |= made | {dtype for _, _, dtype in told["inputs"]}
            if told["name"] in PRODUCTS:
                self.products.setdefault(told["name"], set()).update(made)


def arrays(caches: Sequence[LayerCache]) -> list[mx.array]:
    return [array for cache in caches for array in cache.arrays]


def traced(target: Laguna, speculator: DFlashLaguna) -> Seen:
    """Two prompts in one pass; then a drafted hot block beside a block of known drafts and a third prompt's chunk."""
    seen, known = Seen(), tuple(range(PROMPT))

    def rounds(bump: mx.array) -> list[mx.array]:
        caches, context = [target.make_caches(32) for _ in range(3)], speculator.make_context()
        prompts = [Part(own, context, Sampling(), 0, known) for own in caches[:2]]
        first = run(target, speculator, prompts, carried=None, tapped=True)
        absorb(speculator, [(context, [Tapped(first.taps, 0, PROMPT)])])
        parts = [
            Part(caches[0], context, HOT, PROMPT, (), source=0, drafts=5, top_logprobs=2),
            Part(caches[1], [], Sampling(), PROMPT, (7,), drafts=2, given=(8, 9)),
            Part(caches[2], [], Sampling(), 0, known[:9]),
        ]
        second = run(target, speculator, parts, carried=first.drawn + bump, tapped=True)
        kept = [array for own in (context, *caches) for array in arrays(own)] + [*first.taps, *second.taps]
        seen.remembered |= {array.dtype for array in kept}
        return [second.packed, *kept]

    mx.export_function(seen.note, rounds, mx.zeros((2,), mx.int32))
    return seen


def assert_narrow(seen: Seen, *, packed: bool = False) -> None:
    assert mx.float16 not in seen.dtypes
    assert seen.remembered == ({NARROW, mx.uint32} if packed else {NARROW})
    assert {"Matmul", "GatherMM"} <= set(seen.products) or "GatherQMM" in seen.products
    assert {name: made for name, made in seen.products.items() if made != {NARROW}} == {}


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU has no product of bfloat16 experts; their dtype is known without it."""
    monkeypatch.setattr(mx, "async_eval", lambda *_: None)


@pytest.mark.parametrize("name", TARGETS)
def test_no_step_of_a_target_is_wider_than_its_weights(tmp_path: Path, name: str) -> None:
    write, loading = TARGETS[name]
    target = load_target(write(tmp_path / "target"), NARROW, loading)
    drafts = packed_speculator.DRAFTS | {"hidden_size": target.config.hidden_size}
    write_checkpoint(tmp_path / "speculator", drafts, speculator_tensors(drafts), 1)
    speculator = load_speculator(tmp_path / "speculator", target, NARROW)
    assert_narrow(traced(target, speculator), packed=loading.kv_bits is not None)


@pytest.mark.parametrize(("layout", "loading"), SPECULATORS)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "split"])
def test_no_step_of_a_speculator_is_wider_than_its_weights(
    tmp_path: Path, layout: str, loading: Loading, fused: bool
) -> None:
    target = load_target(write_pair(tmp_path / "target", **WIDE)[0], NARROW)
    folder = packed_speculator.write_both(tmp_path / "speculator", layout, fused=fused)[0]
    assert_narrow(traced(target, load_speculator(folder, target, NARROW, loading)))


def test_the_trace_sees_a_widened_stream(tmp_path: Path) -> None:
    target = load_target(write_pair(tmp_path / "target", **WIDE)[0], NARROW)
    folder = packed_speculator.write_both(tmp_path / "speculator", "INT8", fused=True)[0]
    speculator = load_speculator(folder, target, NARROW)
    embedding = target.model.embed_tokens
    embedding.weight = embedding.weight.astype(mx.float32)
    seen = traced(target, speculator)
    assert mx.float32 in seen.remembered
    assert mx.float32 in seen.products["Matmul"]
