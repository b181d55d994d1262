"""Checkpoints in MLX's own packing, alone or mixed by module, answer as their weights do when numpy unpacks them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import SwitchLinear

from models.checkpoint import load_target
from models.contract import Row
from models.errors import CheckpointError
from models.laguna import Laguna
from models.scaled import ScaledExperts
from tests.models.packed_layouts import FP4, WIDE, e4m3_values, write_both

TOLERANCE = 3e-5
"""Largest difference of float32 logits that lie within about 6: kernels sum in another order."""

Choice = Callable[[str], dict[str, Any] | None]


def affine(bits: int, group: int) -> dict[str, Any]:
    return {"group_size": group, "bits": bits, "mode": "affine"}


PACKABLE = (nn.Linear, nn.Embedding, SwitchLinear)
NVFP4 = {"group_size": 16, "bits": 4, "mode": "nvfp4"}
MXFP4 = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
MXFP8 = {"group_size": 32, "bits": 8, "mode": "mxfp8"}


def logits(model: Laguna, length: int = 40) -> np.ndarray:
    return np.array(model(mx.arange(length), [Row(0, length, model.make_caches(0))]).logits)


def unpacked(tensors: Mapping[str, mx.array], path: str, settings: Mapping[str, Any]) -> np.ndarray:
    """One module's weights in float32: a little-endian stream of codes, and what a group's scale makes of them."""
    words = np.array(tensors[f"{path}.weight"])
    bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    codes = bits.reshape(*words.shape[:-1], -1, settings["bits"]) @ 2 ** np.arange(settings["bits"])
    grouped = codes.reshape(*words.shape[:-1], -1, settings["group_size"])
    scales = np.array(tensors[f"{path}.scales"])[..., None]
    signed = np.where(codes.reshape(grouped.shape) & 8, -1.0, 1.0) * FP4[grouped & 7]
    match settings["mode"]:
        case "affine":
            whole = grouped * scales.astype(np.float64) + np.array(tensors[f"{path}.biases"])[..., None]
        case "nvfp4":
            whole = signed * e4m3_values()[scales]
        case "mxfp4":
            whole = signed * 2.0 ** (scales.astype(np.float64) - 127)
        case _:
            whole = e4m3_values()[grouped] * 2.0 ** (scales.astype(np.float64) - 127)
    return whole.reshape(codes.shape).astype(np.float32)


def packed(
    tmp_path: Path,
    choice: Choice,
    *,
    prefix: str = "",
    router: str = "gate.proj",
    bias: str = "gate.",
    **settings: object,
) -> tuple[Path, Path]:
    """A packed checkpoint as mlx-lm writes them, and the same weights as plain float32."""
    plain = load_target(write_both(tmp_path, lambda module: None, {}).plain, mx.float32)
    nn.quantize(plain, class_predicate=lambda path, module: isinstance(module, PACKABLE) and (choice(path) or False))
    found = tree_flatten(plain.parameters(), destination={})
    assert isinstance(found, dict)
    for name in [name for name in found if name.endswith("e_score_correction_bias")]:
        found[name] = found[name].astype(mx.bfloat16)
    reference = {name: np.array(value.astype(mx.float32)) for name, value in found.items() if "scales" not in name}
    for path in [name.removesuffix(".scales") for name in found if name.endswith(".scales")]:
        chosen = choice(path)
        assert chosen is not None
        reference.pop(f"{path}.biases", None)
        reference[f"{path}.weight"] = unpacked(found, path, chosen)
    places = {"gate.proj.": f"{router}.", "gate.e_score": f"{bias}e_score"}
    spelled = {f"{prefix}{_replaced(name, places)}": value for name, value in found.items()}
    mx.save_safetensors(str(tmp_path / "packed" / "model.safetensors"), spelled)
    mx.save_safetensors(str(tmp_path / "plain" / "model.safetensors"), {k: mx.array(v) for k, v in reference.items()})
    (tmp_path / "packed" / "config.json").write_text(json.dumps(WIDE | settings))
    return tmp_path / "packed", tmp_path / "plain"


def _replaced(name: str, places: Mapping[str, str]) -> str:
    for ours, theirs in places.items():
        name = name.replace(ours, theirs)
    return name


def routed(settings: dict[str, Any]) -> Choice:
    return lambda path: settings if ".switch_mlp." in path else None


def everything(settings: dict[str, Any]) -> Choice:
    return lambda path: settings


def mix(path: str) -> dict[str, Any] | None:
    """Three to eight bits, by what a module is and which layer it is in."""
    if path.endswith("gate.proj"):
        return affine(8, 64)
    if ".switch_mlp." in path:
        return affine(2 + int(path.split(".")[2]), 128 if "down" in path else 64)
    return {"lm_head": affine(6, 64), "model.embed_tokens": affine(8, 32)}.get(path, affine(5, 64))


def assert_alike(folders: tuple[Path, Path]) -> Laguna:
    got, expected = (load_target(folder, mx.float32) for folder in folders)
    assert np.abs(logits(got) - logits(expected)).max() < TOLERANCE
    biases = [layer.mlp.gate.e_score_correction_bias for layer in got.model.layers[1:]]
    assert {bias.dtype for bias in biases} == {mx.float32}
    return got


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_affine_weights_of_every_width_load_with_a_bare_router(tmp_path: Path, bits: int) -> None:
    model = assert_alike(packed(tmp_path, everything(affine(bits, 64)), router="gate", quantization=affine(bits, 64)))
    assert model.model.layers[1].mlp.gate.proj.bits == bits


@pytest.mark.parametrize("bias", ["", "experts."])
@pytest.mark.parametrize("router", ["gate", "gate.proj"])
def test_a_packed_router_loads_under_both_names_wherever_its_bias_lies(tmp_path: Path, router: str, bias: str) -> None:
    settings = affine(8, 64)
    assert_alike(packed(tmp_path, everything(settings), router=router, bias=bias, quantization=settings))


@pytest.mark.parametrize("settings", [NVFP4, MXFP4, MXFP8], ids=["nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("prefix", ["", "language_model."])
def test_small_floats_load_flat_and_with_a_prefix(tmp_path: Path, settings: dict[str, Any], prefix: str) -> None:
    model = assert_alike(packed(tmp_path, routed(settings), prefix=prefix, quantization=settings))
    experts = model.model.layers[2].mlp.switch_mlp.up_proj
    assert (experts.mode, experts.bits, experts.group_size) == (
        settings["mode"],
        settings["bits"],
        settings["group_size"],
    )
    assert experts.scales.dtype == mx.uint8


@pytest.mark.parametrize("named", ["", "model.layers.1.mlp.gate.proj", "language_model.model.layers.1.mlp.gate.proj"])
def test_a_mix_of_widths_loads_whatever_the_configuration_names(tmp_path: Path, named: str) -> None:
    listed = {named: {"group_size": 64, "bits": 8}} if named else {}
    both = packed(tmp_path, mix, prefix="language_model.", quantization=affine(4, 64) | listed)
    model = assert_alike(both)
    assert [layer.mlp.switch_mlp.up_proj.bits for layer in model.model.layers[1:]] == [3, 4, 5, 6]
    assert [model.lm_head.bits, model.model.embed_tokens.bits, model.model.layers[0].mlp.up_proj.bits] == [6, 8, 5]


def test_settings_under_the_other_name_load(tmp_path: Path) -> None:
    assert_alike(packed(tmp_path, routed(MXFP4), quantization_config=MXFP4))


def test_mlxs_global_scale_is_applied_where_its_own_kernel_is_missing(tmp_path: Path) -> None:
    folder, plain = packed(tmp_path, routed(NVFP4), quantization=NVFP4)
    path, scales = "model.layers.1.mlp.switch_mlp.up_proj", np.array([1.0, 2.0, 0.5, 3.0], np.float32)
    for file, change in ((folder, "global_scale"), (plain, "weight")):
        tensors = mx.load(str(file / "model.safetensors"))
        assert isinstance(tensors, dict)
        if change == "weight":
            tensors[f"{path}.weight"] = tensors[f"{path}.weight"] * mx.array(scales)[:, None, None]
        else:
            tensors[f"{path}.global_scale"] = mx.array(scales) * 2688
        mx.eval(*tensors.values())
        mx.save_safetensors(str(file / "model.safetensors"), tensors)
    model = assert_alike((folder, plain))
    assert isinstance(model.model.layers[1].mlp.switch_mlp.up_proj, ScaledExperts)


def test_a_packed_router_without_its_scales_is_refused(tmp_path: Path) -> None:
    folder, _ = packed(tmp_path, everything(affine(4, 64)), router="gate", quantization=affine(4, 64))
    tensors = mx.load(str(folder / "model.safetensors"))
    assert isinstance(tensors, dict)
    tensors.pop("model.layers.1.mlp.gate.scales")
    mx.eval(*tensors.values())
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    with pytest.raises(CheckpointError, match=r"cannot be loaded: (?s:.)*model\.layers\.1\.mlp\.gate"):
        load_target(folder)
