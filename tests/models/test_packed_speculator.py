"""Speculators in every layout: packed, fused and split, with one window or one a layer, and quantised as they load."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.checkpoint import load_speculator, load_target
from models.config_fields import ConfigError
from models.contract import Row
from models.dflash_laguna import DFlashLaguna
from models.errors import CheckpointError
from models.laguna import Laguna
from models.loading import Loading
from models.quantising import quantising_warnings
from models.scaled import ScaledLinear
from tests.models.closeness import assert_same
from tests.models.packed_layouts import WIDE, Packer, Stored, bf16, fp8, from_bf16, integers, nvfp4, write
from tests.models.tiny_checkpoint import SPECULATOR, random_tensor, speculator_tensors, target_tensors, write_checkpoint

TOLERANCE = 3e-5
DRAFTS: dict[str, Any] = SPECULATOR | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "head_dim": 32,
    "torch_dtype": "bfloat16",
}
PARTS = {"q_proj": 128, "k_proj": 64, "v_proj": 64}
"""Rows of the fused projection, in its order."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Laguna:
    folder = tmp_path_factory.mktemp("target")
    write_checkpoint(folder, WIDE, target_tensors(WIDE), 0)
    return load_target(folder, mx.float32)


def fp8_by_row(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
    return fp8(1, weight.shape[1])(weight)


def compressed_tensors(kind: str, **weights: object) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}}
    settings = {"quant_method": "compressed-tensors", "format": kind, "config_groups": {"group_0": group}}
    return {"quantization_config": settings}


COMPRESSED: dict[str, tuple[Packer, dict[str, Any]]] = {
    "INT4": (integers(4, 128), compressed_tensors("pack-quantized", num_bits=4, type="int", group_size=128)),
    "INT8": (integers(8, 32), compressed_tensors("pack-quantized", num_bits=8, type="int", group_size=32)),
    "NVFP4": (nvfp4, compressed_tensors("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16)),
    "FP8": (fp8(128, 128), compressed_tensors("float-quantized", num_bits=8, type="float", strategy="block")),
    "FP8 by row": (fp8_by_row, compressed_tensors("float-quantized", num_bits=8, type="float", strategy="channel")),
}


def mlx(mode: str, bits: int, group: int) -> Packer:
    """MLX's own packing of one matrix, and what it stands for."""

    def pack(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
        parts = mx.quantize(mx.array(weight.astype(np.float32)), group, bits, mode=mode)
        kinds = {"weight": "U32", "scales": "F32" if mode == "affine" else "U8", "biases": "F32"}
        stored = {name: (kinds[name], np.array(part)) for name, part in zip(kinds, parts, strict=False)}
        return stored, np.array(mx.dequantize(*parts, group_size=group, bits=bits, mode=mode).astype(mx.float32))

    return pack


KINDS = [("affine", 3, 64), ("affine", 4, 64), ("affine", 6, 64), ("affine", 8, 64), ("nvfp4", 4, 16), ("mxfp4", 4, 32)]
MLX: dict[str, tuple[Packer, dict[str, Any]]] = {
    f"{mode} {bits}": (mlx(mode, bits, size), {"quantization": {"group_size": size, "bits": bits, "mode": mode}})
    for mode, bits, size in KINDS
}
LAYOUTS = COMPRESSED | MLX


def split(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every fused projection as three."""
    out: dict[str, np.ndarray] = {}
    for name, value in tensors.items():
        if "qkv_proj" not in name:
            out[name] = value
            continue
        cuts = np.split(value, np.cumsum(list(PARTS.values()))[:-1])
        out |= {name.replace("qkv_proj", part): rows for part, rows in zip(PARTS, cuts, strict=True)}
    return out


def write_both(folder: Path, layout: str, *, fused: bool, **overrides: object) -> tuple[Path, Path]:
    """The same speculator packed and plain."""
    config, rng, (packer, settings) = DRAFTS | overrides, np.random.default_rng(3), LAYOUTS[layout]
    drawn = {name: random_tensor(rng, name, shape) for name, shape in speculator_tensors(config).items()}
    packed: dict[str, Stored] = {}
    plain: dict[str, Stored] = {}
    for name, value in (drawn if fused else split(drawn)).items():
        module, value = name.removesuffix(".weight"), value.astype(np.float32)
        if value.ndim == 2 and "g_proj" not in name:
            stored, value = packer(value)
            packed |= {f"{module}.{suffix}": tensor for suffix, tensor in stored.items()}
        else:
            packed[name] = ("BF16", bf16(value))
            value = from_bf16(bf16(value))
        plain[name] = ("F32", value.astype(np.float32))
    write(folder / "packed", config | settings, packed)
    write(folder / "plain", config, plain)
    return folder / "packed", folder / "plain"


def drafts(speculator: DFlashLaguna, length: int = 60) -> np.ndarray:
    """Drafted logits after a context longer than the window."""
    rng = np.random.default_rng(1)
    taps = [mx.array(scale * rng.standard_normal((length, 128)).astype(np.float32)) for scale in (0.5, 3.0, 20.0)]
    context = speculator.make_context()
    speculator.absorb(speculator.fuse(taps), [Row(0, length, context)])
    return np.array(speculator.draft_block(mx.array([5]), [Row(0, 8, context)]))


def linear(speculator: DFlashLaguna) -> dict[str, nn.Module]:
    kinds = (nn.Linear, nn.QuantizedLinear)
    return {path: module for path, module in speculator.named_modules() if isinstance(module, kinds)}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "split"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_packed_speculator_drafts_as_its_unpacked_weights(
    tmp_path: Path, target: Laguna, layout: str, fused: bool
) -> None:
    packed, plain = (load_speculator(f, target, mx.float32) for f in write_both(tmp_path, layout, fused=fused))
    assert_same(drafts(packed), drafts(plain), TOLERANCE)
    kind = ScaledLinear if layout == "NVFP4" else nn.Linear if "FP8" in layout else nn.QuantizedLinear
    first = packed.layers[0].self_attn
    assert [type(part) for part in (packed.fc, first.q_proj, first.v_proj)] == [kind] * 3
    assert type(first.g_proj) is nn.Linear


@pytest.mark.parametrize("layout", ["affine 4", "INT4"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "split"])
def test_a_packed_speculator_may_state_a_window_for_each_layer(
    tmp_path: Path, target: Laguna, layout: str, fused: bool
) -> None:
    windows = [24, 16, 8]
    folders = write_both(tmp_path, layout, fused=fused, sliding_windows=windows)
    packed, plain = (load_speculator(folder, target, mx.float32) for folder in folders)
    assert [attention.window for attention in packed.config.attention] == windows
    assert_same(drafts(packed), drafts(plain), TOLERANCE)
    one = load_speculator(write_both(tmp_path, layout, fused=fused)[0], target, mx.float32)
    assert np.abs(drafts(one) - drafts(packed)).max() > 0.01


def test_in_bfloat16_a_packed_speculator_stays_there(tmp_path: Path, target: Laguna) -> None:
    speculator = load_speculator(write_both(tmp_path, "NVFP4", fused=True)[0], target, mx.bfloat16)
    rows = speculator.fuse([mx.ones((40, 128), mx.bfloat16)] * 3)
    context = speculator.make_context()
    speculator.absorb(rows, [Row(0, 40, context)])
    assert {rows.dtype} | {array.dtype for cache in context for array in cache.arrays} == {mx.bfloat16}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"quant_method": "gptq", "bits": 4}, ConfigError, "speculator config: quantization_config: quant_method is"),
        ({"format": "marlin-24"}, ConfigError, "speculator config: quantization_config: format is 'marlin-24'"),
        ({"format": "float-quantized"}, CheckpointError, r"\w+: its tensors are pack-quantized, its group says float"),
    ],
)
def test_a_packing_that_does_not_load_is_refused_by_name(
    tmp_path: Path, target: Laguna, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    folder, _ = write_both(tmp_path, "INT4", fused=True)
    raw = json.loads((folder / "config.json").read_text())
    settings = {key: value for key, value in raw["quantization_config"].items() if key != "config_groups"} | change
    (folder / "config.json").write_text(json.dumps(raw | {"quantization_config": settings}))
    with pytest.raises(error, match=message):
        load_speculator(folder, target, mx.float32)


def test_quantised_at_load_is_what_mlx_quantises(tmp_path: Path, target: Laguna) -> None:
    _, plain = write_both(tmp_path, "affine 4", fused=True)
    small = load_speculator(plain, target, mx.float32, Loading(speculator_bits=4))
    wide = load_speculator(plain, target, mx.float32)
    nn.quantize(wide, group_size=64, bits=4)
    expected, got = (dict(_flat(speculator)) for speculator in (wide, small))
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(np.array(got[name]), np.array(value), err_msg=name)
    assert {type(module) for module in linear(small).values()} == {nn.QuantizedLinear}
    assert quantising_warnings(small, 4) == ()


def _flat(module: nn.Module) -> list[tuple[str, mx.array]]:
    flat = tree_flatten(module.parameters())
    assert isinstance(flat, list)
    return flat


def test_quantising_touches_neither_the_target_nor_what_is_packed_already(tmp_path: Path, target: Laguna) -> None:
    before = {name: value.dtype for name, value in _flat(target)}
    packed, _ = write_both(tmp_path, "affine 8", fused=False)
    speculator = load_speculator(packed, target, mx.float32, Loading(speculator_bits=4))
    assert {name: value.dtype for name, value in _flat(target)} == before
    kinds = {module.bits for module in linear(speculator).values() if isinstance(module, nn.QuantizedLinear)}
    assert kinds == {8, 4}
    (warning,) = quantising_warnings(speculator, 4)
    assert "22 of 25 linear layers of the speculator stay as they are, such as fc: they are packed already" in warning
    assert quantising_warnings(speculator, None) == ()


def test_layers_that_do_not_divide_into_groups_stay_and_that_is_told(tmp_path: Path, target: Laguna) -> None:
    _, plain = write_both(tmp_path, "INT8", fused=True, intermediate_size=224)
    speculator = load_speculator(plain, target, mx.float32, Loading(speculator_bits=4))
    assert type(speculator.layers[0].mlp.down_proj) is nn.Linear
    assert "3 of 25 linear layers" in quantising_warnings(speculator, 4)[0]
    assert drafts(speculator).shape == (7, 97)
