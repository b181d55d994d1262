"""Loading holds little more than what it loads: what one module is made from is gone before the next one is read."""

import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models.checkpoint import load_speculator, load_target
from models.config import TargetConfig
from models.laguna import Laguna
from tests.models.packed_layouts import Stored, write
from tests.models.tiny_checkpoint import SPECULATOR, TARGET, speculator_tensors, target_tensors

PEAK = 1.15
"""Most bytes in use while loading, as a share of those held afterwards."""

LAYERS = 8
SIZES: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 32, "vocab_size": 1024}
DEEP: dict[str, Any] = (
    TARGET
    | SIZES
    | {
        "num_hidden_layers": LAYERS,
        "num_attention_heads_per_layer": [4] * LAYERS,
        "layer_types": ["full_attention", "sliding_attention"] * (LAYERS // 2),
        "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
        "num_experts": 16,
        "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 256,
        "torch_dtype": "bfloat16",
    }
)
DRAFTS: dict[str, Any] = SPECULATOR | SIZES | {"num_hidden_layers": 5, "layer_types": ["sliding_attention"] * 5}
DRAFTS["draft_vocab_size"] = SIZES["vocab_size"]
DRAFTS["dflash_config"] = SPECULATOR["dflash_config"] | {"num_target_layers": LAYERS}

Layout = Callable[[int, int], dict[str, Stored]]
"""Rows and columns of one expert's matrix to its tensors, all zero."""


def zeros(kind: str, dtype: type[np.generic], *shape: int) -> Stored:
    return kind, np.zeros(shape, dtype)


def plain(rows: int, columns: int) -> dict[str, Stored]:
    return {"weight": zeros("BF16", np.uint16, rows, columns)}


def fp8(rows: int, columns: int) -> dict[str, Stored]:
    scales = zeros("F32", np.float32, rows // 128, columns // 128)
    return {"weight": zeros("F8_E4M3", np.uint8, rows, columns), "weight_scale": scales}


def int4(rows: int, columns: int) -> dict[str, Stored]:
    scales = zeros("BF16", np.uint16, rows, columns // 128)
    return {"weight_packed": zeros("I32", np.int32, rows, columns // 8), "weight_scale": scales}


def nvfp4(rows: int, columns: int) -> dict[str, Stored]:
    return {
        "weight_packed": zeros("U8", np.uint8, rows, columns // 2),
        "weight_scale": zeros("F8_E4M3", np.uint8, rows, columns // 16),
        "weight_global_scale": ("F32", np.ones(1, np.float32)),
    }


def compressed(layout: str) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": layout}}


def tensors(layout: Layout) -> dict[str, Stored]:
    out: dict[str, Stored] = {}
    for name, shape in target_tensors(DEEP).items():
        if ".experts." in name and len(shape) == 2:
            parts = layout(*shape)
            out |= {f"{name.removesuffix('.weight')}.{suffix}": stored for suffix, stored in parts.items()}
        else:
            out[name] = zeros("BF16", np.uint16, *shape)
    return out


def peak(load: Callable[[], object]) -> float:
    """Most bytes in use during `load`, as a share of those in use afterwards, both without what was there before."""
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    loaded = load()
    share = (mx.get_peak_memory() - before) / (mx.get_active_memory() - before)
    assert mx.get_cache_memory() == 0
    del loaded
    return share


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize(
    ("layout", "settings"),
    [
        (plain, {}),
        (fp8, compressed("float-quantized")),
        (int4, compressed("pack-quantized")),
        (nvfp4, compressed("nvfp4-pack-quantized")),
    ],
    ids=["plain", "fp8", "int4", "nvfp4"],
)
def test_a_target_peaks_little_above_its_weights(
    tmp_path: Path, layout: Layout, settings: Mapping[str, Any], dtype: mx.Dtype
) -> None:
    write(tmp_path, DEEP | dict(settings), tensors(layout))
    assert 1.0 <= peak(lambda: load_target(tmp_path, dtype)) <= PEAK


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_a_speculator_peaks_little_above_its_weights(tmp_path: Path, dtype: mx.Dtype) -> None:
    shapes = speculator_tensors(DRAFTS)
    write(tmp_path, DRAFTS, {name: zeros("BF16", np.uint16, *shape) for name, shape in shapes.items()})
    target = Laguna(TargetConfig.from_dict(DEEP))
    assert 1.0 <= peak(lambda: load_speculator(tmp_path, target, dtype)) <= PEAK
