"""compressed-tensors checkpoints answer as their weights do when numpy unpacks them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.switch_layers import QuantizedSwitchLinear

from models.checkpoint import load_speculator, load_target
from models.errors import CheckpointError
from models.packing import compressed
from models.scaled import ScaledExperts, ScaledLinear
from tests.models.packed_layouts import (
    MLP,
    ROUTED,
    Packer,
    Stored,
    fp8,
    integers,
    kv_scales,
    logits,
    nvfp4,
    where,
    write_both,
)
from tests.models.tiny_checkpoint import write_pair

TOLERANCE = 3e-5
"""Largest difference of float32 logits that lie within about 6: products are divided instead of weights."""

R1 = {
    "config_groups": {
        "R1": {
            "type": "hadamard",
            "head_dim": 128,
            "randomize": False,
            "apply": [
                {"location": "weight_output", "inverse": False, "targets": ["re:.*o_proj$", "re:.*down_proj$"]},
                {"location": "weight_input", "inverse": True, "targets": ["re:.*q_proj$", "re:.*mlp.gate$"]},
            ],
        }
    }
}
KEPT = ["lm_head", r"re:.*\.self_attn\.[qkvog]_proj$", r"re:.*\.mlp\.gate$"]


def container(kind: str, *groups: Mapping[str, Any], ignore: list[str] = KEPT, **more: object) -> dict[str, Any]:
    stated = {"quant_method": "compressed-tensors", "format": kind, "quantization_status": "compressed"}
    named = {f"group_{index}": group for index, group in enumerate(groups)}
    return {"quantization_config": {**stated, "config_groups": named, "ignore": ignore, **more}}


def int_group(bits: int, size: int, *targets: str) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": size}
    return {"targets": list(targets), "weights": weights | {"actorder": None, "dynamic": False}}


def fp4_group(*targets: str) -> dict[str, Any]:
    weights = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16}
    return {
        "targets": list(targets),
        "format": "nvfp4-pack-quantized",
        "weights": weights,
        "input_activations": weights,
    }


def fp8_group(strategy: str, *targets: str) -> dict[str, Any]:
    weights: dict[str, Any] = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy}
    if strategy == "block":
        weights["block_structure"] = [128, 128]
    return {"targets": list(targets), "format": "float-quantized", "weights": weights}


@dataclass(frozen=True)
class Case:
    packer: Callable[[str], Packer | None]
    settings: dict[str, Any]
    extra: dict[str, Stored] = field(default_factory=dict)
    prefix: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


UNEVEN = {"hidden_size": 160, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 40}
CASES = {
    "4 bits in groups of 128, then 8 bits; the shared expert ignored": Case(
        where((r"layers\.[12]\.mlp\.experts", integers(4, 128)), (r"layers\.[34]\.mlp\.experts", integers(8, 128))),
        container(
            "pack-quantized",
            int_group(4, 128, r"re:.*layers\.(?:[12])\.mlp\..*(gate_proj|up_proj|down_proj)$"),
            int_group(8, 128, r"re:.*layers\.(?:[34])\.mlp\..*(gate_proj|up_proj|down_proj)$"),
            ignore=[*KEPT, r"re:.*shared_expert.*", r"re:.*layers\.0\.mlp\..*"],
            transform_config=R1,
        ),
    ),
    "4 bits in groups of 32, shared expert and dense layer too, no weight_shape": Case(
        where((MLP, integers(4, 32, shape=False))),
        container(
            "pack-quantized",
            int_group(4, 32, r"re:.*layers\.\d+\..*(w[1-3]|gate_proj|up_proj|down_proj)$"),
            ignore=[],
            kv_cache_scheme={"num_bits": 8, "type": "float"},
        ),
        kv_scales(),
    ),
    "4 bits without groups in the configuration": Case(
        where((ROUTED, integers(4, 64))),
        {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}},
    ),
    "NVFP4 of the routed experts, the last layer left plain": Case(
        where((r"layers\.[123]\.mlp\.experts\.", nvfp4)),
        container("nvfp4-pack-quantized", fp4_group("Linear"), ignore=[*KEPT, r"re:.*layers\.4\.mlp\.experts.*"]),
        kv_scales(),
    ),
    "NVFP4 of routed and shared experts and the dense layer, with a wrapper's prefix": Case(
        where((MLP, nvfp4)),
        container("nvfp4-pack-quantized", fp4_group("Linear")),
        kv_scales(),
        "language_model.",
    ),
    "FP8 in blocks that the sizes do not fill, shared expert and dense layer too": Case(
        where((MLP, fp8(128, 128))),
        container("float-quantized", fp8_group("block", "Linear"), transform_config=R1),
        kv_scales(),
        overrides=UNEVEN,
    ),
    "FP8 of the routed experts, a scale a row": Case(
        where((ROUTED, fp8(1, 128))), container("float-quantized", fp8_group("channel", "Linear"))
    ),
    "FP8 of everything that is linear, a scale a matrix": Case(
        where((r"_proj$|lm_head|\.gate$", fp8(flat=True))),
        container("float-quantized", fp8_group("tensor", "Linear"), ignore=[]),
        overrides=UNEVEN,
    ),
    "a format for each group": Case(
        where((r"layers\.[12]\.mlp\.experts", nvfp4), (r"layers\.[34]\.mlp\.experts", fp8(128, 128))),
        container(
            "mixed-precision",
            fp4_group(r"re:.*layers\.[12]\.mlp\.experts\..*"),
            fp8_group("block", r"re:.*layers\.[34]\.mlp\.experts\..*"),
        ),
    ),
    "4 bits everywhere, the router, the head and the gates too": Case(
        where((r"_proj$|lm_head|\.gate$", integers(4, 32))), container("pack-quantized", int_group(4, 32, "Linear"))
    ),
}

MIXED, INT4, _, NVFP4, NVFP4_ALL, FP8, *_ = CASES


@pytest.mark.parametrize("name", CASES)
def test_a_packed_target_answers_as_its_unpacked_weights(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    both = write_both(tmp_path, case.packer, case.settings, extra=case.extra, prefix=case.prefix, **case.overrides)
    expected, got = (load_target(folder, mx.float32) for folder in (both.plain, both.packed))
    difference = np.abs(logits(got) - logits(expected)).max()
    assert got.config == expected.config
    assert difference < TOLERANCE


def written(tmp_path: Path, name: str) -> Path:
    case = CASES[name]
    return write_both(
        tmp_path, case.packer, case.settings, extra=case.extra, prefix=case.prefix, **case.overrides
    ).packed


def test_each_layer_keeps_the_packing_that_the_file_gave_it(tmp_path: Path) -> None:
    model = load_target(written(tmp_path, MIXED))
    kinds = [layer.mlp.switch_mlp.up_proj for layer in model.model.layers[1:]]
    assert all(isinstance(kind, QuantizedSwitchLinear) for kind in kinds)
    assert [(kind.bits, kind.group_size, kind.mode) for kind in kinds] == [(4, 128, "affine")] * 2 + [
        (8, 128, "affine")
    ] * 2
    assert type(model.model.layers[1].mlp.shared_expert.up_proj) is nn.Linear
    assert type(model.model.layers[0].mlp.up_proj) is nn.Linear


def test_nvfp4_bytes_are_the_files_own_and_its_global_scales_are_exact(tmp_path: Path) -> None:
    folder = written(tmp_path, NVFP4_ALL)
    stored = mx.load(str(folder / "model.safetensors"))
    assert isinstance(stored, dict)
    model = load_target(folder, mx.bfloat16)
    mlp, prefix = model.model.layers[2].mlp, "language_model.model.layers.2.mlp"
    experts, shared = mlp.switch_mlp.down_proj, mlp.shared_expert.down_proj
    assert isinstance(experts, ScaledExperts)
    assert isinstance(shared, ScaledLinear)
    assert isinstance(model.model.layers[0].mlp.gate_proj, ScaledLinear)
    for expert in range(4):
        name = f"{prefix}.experts.{expert}.down_proj"
        assert mx.array_equal(experts.packed.scales[expert], stored[f"{name}.weight_scale"])
        assert mx.array_equal(experts.packed.weight[expert].view(mx.uint8), stored[f"{name}.weight_packed"])
        assert experts.divisor[expert].item() == stored[f"{name}.weight_global_scale"].item()
    assert shared.divisor.item() == stored[f"{prefix}.shared_expert.down_proj.weight_global_scale"].item()
    assert experts.divisor.dtype == shared.divisor.dtype == mx.float32


@pytest.mark.parametrize("name", [MIXED, NVFP4_ALL])
def test_in_bfloat16_nothing_widens_the_stream(tmp_path: Path, name: str) -> None:
    model = load_target(written(tmp_path, name), mx.bfloat16)
    x = mx.ones((3, 128), dtype=mx.bfloat16)
    shared, dense = model.model.layers[1].mlp.shared_expert, model.model.layers[0].mlp
    routed = model.model.layers[1].mlp.switch_mlp.up_proj.packed if "NVFP4" in name else None
    assert shared(x).dtype == dense(x).dtype == mx.bfloat16
    if routed is None:
        assert model.model.layers[1].mlp.switch_mlp.up_proj.biases.dtype == mx.bfloat16
    else:
        out = model.model.layers[1].mlp.switch_mlp.up_proj(x[:, None, None], mx.zeros((3, 2), mx.int32))
        assert out.dtype == mx.bfloat16
        assert out.shape == (3, 2, 1, 128)


def test_sorted_and_unsorted_experts_are_divided_alike(tmp_path: Path) -> None:
    model = load_target(written(tmp_path, NVFP4), mx.float32)
    switch = model.model.layers[1].mlp.switch_mlp
    x, chosen = mx.random.normal((40, 128), key=mx.random.key(0)), mx.arange(80).reshape(40, 2) * 7 % 4
    together = switch(x, chosen)
    alone = mx.concatenate([switch(x[row : row + 1], chosen[row : row + 1]) for row in range(40)])
    np.testing.assert_allclose(np.array(together), np.array(alone), rtol=0, atol=1e-5)


def test_a_rotation_baked_into_the_weights_is_known() -> None:
    stated = {name: compressed(case.settings) for name, case in CASES.items()}
    assert [name for name, found in stated.items() if found is not None and found.rotated] == [MIXED, FP8]


def altered(folder: Path, change: Callable[[dict[str, mx.array]], object]) -> None:
    tensors = mx.load(str(folder / "model.safetensors"))
    assert isinstance(tensors, dict)
    change(tensors)
    mx.eval(*tensors.values())
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)


EXPERT = "model.layers.1.mlp.experts.2.up_proj"


@pytest.mark.parametrize(
    ("name", "lost", "message"),
    [
        (INT4, f"{EXPERT}.weight_packed", f"{EXPERT}.weight_packed: missing, though others have it"),
        (INT4, "model.layers.0.mlp.up_proj.weight_scale", "layers.0.mlp.up_proj: weight_scale is missing beside"),
        (
            INT4,
            "model.layers.0.mlp.up_proj.weight_packed",
            "there is a weight_scale, but no weight_packed and no weight",
        ),
        (NVFP4, f"{EXPERT}.weight_global_scale", "weight_global_scale: missing, though"),
        (FP8, "model.layers.0.mlp.up_proj.weight", "there is a weight_scale, but no weight_packed and no weight"),
    ],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str, lost: str, message: str) -> None:
    folder = written(tmp_path, name)
    altered(folder, lambda tensors: tensors.pop(lost))
    with pytest.raises(CheckpointError, match=message):
        load_target(folder)


def test_without_any_global_scale_its_size_is_unknown(tmp_path: Path) -> None:
    def stripped(tensors: dict[str, mx.array]) -> None:
        for name in [name for name in tensors if name.endswith(".weight_global_scale")]:
            del tensors[name]

    folder = written(tmp_path, NVFP4)
    altered(folder, stripped)
    with pytest.raises(CheckpointError, match="weight_global_scale is missing beside weight_packed, weight_scale"):
        load_target(folder)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (INT4, container("pack-quantized", int_group(8, 32, "Linear")), "its tensors have 4 bits, its group says 8"),
        (INT4, container("pack-quantized", int_group(4, 64, "Linear")), "groups of 32, its group says 64"),
        (
            NVFP4,
            container("pack-quantized", int_group(4, 32, "Linear")),
            "are nvfp4-pack-quantized, its group says pack",
        ),
        (FP8, container("nvfp4-pack-quantized", fp4_group("Linear")), "are float-quantized, its group says nvfp4"),
    ],
)
def test_a_group_that_contradicts_the_tensors_is_refused(
    tmp_path: Path, name: str, settings: dict[str, Any], message: str
) -> None:
    folder = written(tmp_path, name)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    with pytest.raises(CheckpointError, match=rf"cannot be loaded: model\.layers\.\d\.mlp.*: .*{message}"):
        load_target(folder)


def test_a_speculator_whose_configuration_repeats_its_targets_packing_loads_its_plain_tensors(tmp_path: Path) -> None:
    target, drafts = write_pair(tmp_path, speculator=container("float-quantized", fp8_group("block", "Linear")))
    speculator = load_speculator(drafts, load_target(target, mx.float32), mx.float32)
    assert type(speculator.fc) is nn.Linear
