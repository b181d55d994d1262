"""Every published checkpoint in full size, opened from files that hold names, dtypes and shapes, but no data.

`python -m tests.models.full_size` prints one line of JSON for each. Files are made as long as they say without being
written, and nothing of them is read but the headers.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx

from models.checkpoint import prepare_speculator, prepare_target
from models.config import TargetConfig
from models.laguna import Laguna
from models.loading import DEFAULTS, Loading
from models.settling import held_bytes
from tests.models import published as of
from tests.models import published_packing as packing
from tests.models import published_tensors as layout
from tests.models.published_tensors import DENSE, ROUTED, SHARED, Tensors
from tests.peak import peak

SHARD = 20_000
"""Tensors in one file."""
BYTES = {"F32": 4, "BF16": 2, "I32": 4, "U32": 4, "U8": 1, "F8_E4M3": 1, "I64": 8}
MLP = rf"{ROUTED}|{SHARED}|{DENSE}"
PREFIX = "language_model."

Config = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One published checkpoint; `target` is the one that a speculator borrows from."""

    config: Config
    tensors: Callable[[Config], Tensors]
    target: Config | None = None
    loading: Loading = DEFAULTS


def plain(config: Config) -> Tensors:
    return layout.plain(config)


def compressed(*rules: tuple[str, layout.Packer], scales: bool = False) -> Callable[[Config], Tensors]:
    def tensors(config: Config) -> Tensors:
        found = layout.packed(layout.plain(config), *rules)
        return layout.with_cache_scales(found) if scales else found

    return tensors


def mlx(*rules: tuple[str, layout.Packer], router: str = "gate", prefix: str = "") -> Callable[[Config], Tensors]:
    def tensors(config: Config) -> Tensors:
        return layout.packed(layout.for_mlx(layout.plain(config), router=router, prefix=prefix), *rules)

    return tensors


def drafts(*rules: tuple[str, layout.Packer]) -> Callable[[Config], Tensors]:
    return lambda config: layout.packed(layout.speculator(config), *rules)


INT4_THEN_8 = (
    (rf"layers\.(?:3[1-9])\..*{ROUTED}", layout.int_packed(8, 128)),
    (ROUTED, layout.int_packed(4, 128)),
)
MIXED = (
    (r"gate\.proj|embed_tokens|lm_head", layout.mlx_affine(8, 64)),
    (r"\.switch_mlp\.down_proj", layout.mlx_affine(5, 64)),
    (r"\.switch_mlp\.", layout.mlx_affine(3, 64)),
    (r"self_attn\.[qkvog]_proj", layout.mlx_affine(6, 128)),
    (r"_proj\.weight", layout.mlx_affine(4, 64)),
)
EVERY_LINEAR = r"_proj\.weight|lm_head|embed_tokens|\.gate\."

CASES: dict[str, Case] = {
    "XS.2, flat rope": Case(of.XS_2_FLAT, plain),
    "XS.2, early": Case(of.XS_2_TWICE, plain),
    "XS.2": Case(of.XS_2_MIXED, plain),
    "XS.2-FP8": Case(of.XS_2_MIXED | packing.XS_FP8, compressed((MLP, layout.fp8_packed), scales=True)),
    "XS.2-NVFP4": Case(of.XS_2_MIXED | packing.XS_2_NVFP4, compressed((MLP, layout.fp4_packed), scales=True)),
    "XS.2-INT4": Case(of.XS_2_FLAT | packing.XS_INT4, compressed(*INT4_THEN_8)),
    "XS-2.1": Case(of.XS_2_1, plain),
    "XS-2.1-FP8": Case(of.XS_2_1 | packing.XS_FP8, compressed((MLP, layout.fp8_packed), scales=True)),
    "XS-2.1-FP8, packed again": Case(
        of.XS_2_1 | packing.XS_FP8,
        compressed((MLP, layout.fp8_packed), scales=True),
        loading=Loading(fp8_bits=8),
    ),
    "XS-2.1-NVFP4": Case(
        of.XS_2_1 | packing.XS_2_1_NVFP4, compressed((rf"{ROUTED}|{SHARED}", layout.fp4_packed), scales=True)
    ),
    "XS-2.1-INT4": Case(of.XS_2_1 | packing.XS_INT4, compressed(*INT4_THEN_8)),
    "XS-2.1-NVFP4-mlx": Case(
        of.XS_2_1_MLX | packing.NVFP4_MLX, mlx((r"\.switch_mlp\.", layout.mlx_fp4), router="gate.proj", prefix=PREFIX)
    ),
    "XS-2.1, 8-bit MLX": Case(
        of.XS_2_1 | packing.affine(8, 64),
        mlx((EVERY_LINEAR, layout.mlx_affine(8, 64)), router="gate.proj", prefix=PREFIX),
    ),
    "XS-2.1, 4-bit MLX with a bare router": Case(
        of.XS_2_1 | packing.affine(4, 64), mlx((EVERY_LINEAR, layout.mlx_affine(4, 64)))
    ),
    "S-2.1": Case(of.S_2_1_LONG, plain),
    "S-2.1-FP8": Case(of.S_2_1 | packing.S_FP8, compressed((ROUTED, layout.fp8_packed), scales=True)),
    "S-2.1-FP8, packed again": Case(
        of.S_2_1 | packing.S_FP8, compressed((ROUTED, layout.fp8_packed), scales=True), loading=Loading(fp8_bits=8)
    ),
    "S-2.1-NVFP4": Case(of.S_2_1 | packing.S_NVFP4, compressed((ROUTED, layout.fp4_packed), scales=True)),
    "S-2.1-NVFP4, last layers plain": Case(
        of.S_2_1 | packing.S_NVFP4_LATE_PLAIN,
        compressed((rf"layers\.(?:[1-9]|[123]\d)\..*{ROUTED}", layout.fp4_packed), scales=True),
    ),
    "S-2.1-INT4": Case(of.S_2_1 | packing.S_INT4, compressed((ROUTED, layout.int_packed(4, 32, with_shape=False)))),
    "S-2.1-NVFP4-mlx": Case(of.S_2_1 | packing.NVFP4_MLX, mlx((r"\.switch_mlp\.", layout.mlx_fp4))),
    "S-2.1, MLX mixed by module": Case(
        of.S_2_1_LONG | packing.affine(4, 64), mlx(*MIXED, router="gate.proj", prefix=PREFIX)
    ),
    "M.1": Case(of.M_1, plain),
    "M.1-FP8": Case(of.M_1 | packing.M_FP8, compressed((MLP, layout.fp8_packed), scales=True)),
    "M.1-NVFP4": Case(of.M_1 | packing.XS_2_NVFP4, compressed((MLP, layout.fp4_packed), scales=True)),
    "XS-2.1-DFlash": Case(of.XS_2_1_DFLASH, drafts(), of.XS_2_1),
    "XS-2.1-DFlash, 4-bit MLX": Case(
        of.XS_2_1_DFLASH | packing.affine(4, 64), drafts((r"_proj\.weight|^fc\.", layout.mlx_affine(4, 64))), of.XS_2_1
    ),
    "S-2.1-DFlash": Case(of.S_2_1_DFLASH, drafts(), of.S_2_1_LONG),
    "S-2.1-DFlash, 8-bit MLX": Case(
        of.S_2_1_DFLASH | packing.affine(8, 64), drafts((r"_proj\.weight|^fc\.", layout.mlx_affine(8, 64))), of.S_2_1
    ),
}


def write(folder: Path, config: Config, tensors: Tensors) -> int:
    """`config.json` and files of the right length with headers alone; returns the bytes that the tensors would have."""
    (folder / "config.json").write_text(json.dumps(config))
    total = 0
    listed = list(tensors.items())
    for number, first in enumerate(range(0, len(listed), SHARD)):
        header: dict[str, Any] = {}
        start = 0
        for name, (dtype, shape) in listed[first : first + SHARD]:
            stop = start + BYTES[dtype] * prod(shape)
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}
            start = stop
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (folder / f"model-{number:05}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + start)
        total += start
    return total


def opened(case: Case) -> dict[str, Any]:
    """Write, open and give the run dtype, all without reading a weight; what was seen on the way."""
    tensors = case.tensors(case.config)
    began = time.perf_counter()
    with TemporaryDirectory() as place:
        size = write(Path(place), case.config, tensors)
        if case.target is None:
            network = prepare_target(Path(place), mx.bfloat16, case.loading)
        else:
            network = prepare_speculator(Path(place), Laguna(TargetConfig.from_dict(case.target)), mx.bfloat16)
        held = held_bytes(network)
    return {"tensors": len(tensors), "bytes": size, "held": held, "seconds": time.perf_counter() - began}


def main() -> None:
    """Every case, or those whose names are given."""
    # Looking through hundreds of thousands of live tensors again and again takes a third of the time.
    gc.set_threshold(200_000, 10, 10)
    for name in sys.argv[1:] or CASES:
        found = opened(CASES[name])
        print(json.dumps({"name": name, **found, "peak": peak()}), flush=True)


if __name__ == "__main__":
    main()
