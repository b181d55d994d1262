"""A target of about the wanted size in each published kind of packing: right names, dtypes and shapes, random bytes."""

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import published_packing as packing
from tests.models import published_tensors as layout
from tests.models.full_size import BYTES
from tests.models.published import XS_2_1
from tests.models.published_tensors import ROUTED, SHARED, Tensors

VOCABULARY = 16_384
LAYERS = 8
HIDDEN = 1024
INTERMEDIATE = 512

Kind = tuple[dict[str, Any], Callable[[dict[str, Any]], Tensors]]

KINDS: dict[str, Kind] = {
    "bf16": ({}, layout.plain),
    "mlx4": (
        packing.affine(4, 64),
        lambda config: layout.packed(
            layout.for_mlx(layout.plain(config)), (r"_proj\.weight|lm_head|embed_tokens", layout.mlx_affine(4, 64))
        ),
    ),
    "nvfp4": (
        packing.XS_2_1_NVFP4,
        lambda config: layout.packed(layout.plain(config), (rf"{ROUTED}|{SHARED}", layout.fp4_packed)),
    ),
    "fp8": (packing.S_FP8, lambda config: layout.packed(layout.plain(config), (ROUTED, layout.fp8_packed))),
    "int4": (
        packing.S_INT4,
        lambda config: layout.packed(layout.plain(config), (ROUTED, layout.int_packed(4, 32))),
    ),
}
"""Settings and tensors of each."""


def shape(megabytes: int) -> dict[str, Any]:
    """A configuration whose weights take about so many million bytes in bfloat16; most of them are experts."""
    fixed = 2 * 2 * VOCABULARY * HIDDEN + LAYERS * 2 * 3 * HIDDEN * HIDDEN
    expert = 2 * 3 * HIDDEN * INTERMEDIATE
    experts = max(8, round((megabytes * 1e6 - fixed) / expert / (LAYERS - 1)))
    return XS_2_1 | {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 8,
        "num_attention_heads_per_layer": [8, 8, 8, 8] * (LAYERS // 4),
        "num_key_value_heads": 2,
        "layer_types": ["full_attention", *["sliding_attention"] * 3] * (LAYERS // 4),
        "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
        "num_experts": experts,
        "moe_intermediate_size": INTERMEDIATE,
        "shared_expert_intermediate_size": INTERMEDIATE,
    }


def write(folder: Path, kind: str, megabytes: int) -> None:
    """`config.json` and one `model.safetensors` of small random numbers."""
    settings, tensors = KINDS[kind]
    config = shape(megabytes) | settings
    (folder / "config.json").write_text(json.dumps(config))
    listed = tensors(config)
    header: dict[str, Any] = {}
    start = 0
    for name, (dtype, dims) in listed.items():
        stop = start + BYTES[dtype] * prod(dims)
        header[name] = {"dtype": dtype, "shape": list(dims), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for dtype, dims in listed.values():
            file.write(_values(rng, dtype, prod(dims)))


def _values(rng: np.random.Generator, dtype: str, count: int) -> bytes:
    """Bits that are numbers of about 1 in whatever dtype."""
    if dtype == "F32":
        return np.ones(count, np.float32).tobytes()
    if dtype == "BF16":
        return (rng.integers(0, 128, count, np.uint16) + 0x3F00).astype(np.uint16).tobytes()
    if dtype == "F8_E4M3":
        return rng.integers(0x30, 0x40, count, np.uint8).tobytes()
    return rng.integers(0, 128, count * BYTES[dtype], np.uint8).tobytes()
