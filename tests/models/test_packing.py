"""Which packing a configuration states, and which are refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.checkpoint import load_target
from models.config_fields import ConfigError
from models.packing import Scheme, compressed, loader_settings, matches
from tests.models.tiny_checkpoint import write_pair

INT4: dict[str, Any] = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
FP8: dict[str, Any] = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
FP4: dict[str, Any] = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def stated(kind: str | None, weights: dict[str, Any] | None, **more: object) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    inside = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **more}
    return {"quantization_config": inside if kind is None else inside | {"format": kind}}


def rotated(location: str) -> dict[str, Any]:
    return {"R1": {"type": "hadamard", "apply": [{"location": location, "targets": ["re:.*q_proj$"]}]}}


@pytest.mark.parametrize(
    ("raw", "scheme"),
    [
        (stated("pack-quantized", INT4), Scheme("pack-quantized", 4, 128)),
        (stated("pack-quantized", INT4 | {"num_bits": 8}), Scheme("pack-quantized", 8, 128)),
        (stated("pack-quantized", INT4 | {"strategy": "channel", "group_size": None}), Scheme("pack-quantized", 4)),
        (stated("pack-quantized", INT4 | {"symmetric": False}), Scheme("pack-quantized", 4, 128, symmetric=False)),
        (stated("nvfp4-pack-quantized", FP4), Scheme("nvfp4-pack-quantized", 4, 16)),
        (stated("float-quantized", FP8), Scheme("float-quantized", 8, block=(128, 128))),
        (stated("float-quantized", FP8 | {"block_structure": "64x32"}), Scheme("float-quantized", 8, block=(64, 32))),
        (stated("float-quantized", FP8 | {"strategy": "tensor"}), Scheme("float-quantized", 8)),
    ],
)
def test_a_group_states_format_bits_and_what_shares_a_scale(raw: dict[str, Any], scheme: Scheme) -> None:
    found = compressed(raw)
    assert found is not None
    assert found.schemes == (scheme,)
    assert found.scheme("model.layers.1.mlp.experts.0.up_proj") == scheme
    assert loader_settings(raw) == {"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        ("pack-quantized", Scheme("pack-quantized", 4)),
        ("nvfp4-pack-quantized", Scheme("nvfp4-pack-quantized", 4, 16)),
        ("float-quantized", Scheme("float-quantized", 8, block=(128, 128))),
    ],
)
@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_a_file_without_groups_means_the_formats_first_kind(key: str, kind: str, scheme: Scheme) -> None:
    found = compressed({key: {"quant_method": "compressed-tensors", "format": kind}})
    assert found is not None
    assert found.schemes == (scheme,)


def test_the_first_group_that_matches_counts_and_ignored_modules_have_none() -> None:
    groups = {
        "group_0": {"targets": [r"re:.*layers\.(?:[1-9]|[12]\d|30)\.mlp\..*"], "weights": INT4},
        "group_1": {"targets": ["Linear"], "weights": INT4 | {"num_bits": 8}},
        "group_2": {"targets": ["Linear"], "weights": None, "input_activations": FP8},
    }
    inside = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    found = compressed({"quantization_config": inside | {"ignore": ["lm_head", r"re:.*\.shared_expert\..*"]}})
    assert found is not None
    bits = {
        name: scheme.bits if (scheme := found.scheme(name)) else None
        for name in (
            "model.layers.30.mlp.experts.7.up_proj",
            "model.layers.31.mlp.experts.7.up_proj",
            "model.layers.30.mlp.shared_expert.up_proj",
            "lm_head",
        )
    }
    assert list(bits.values()) == [4, 8, None, None]


def test_a_target_is_a_class_a_name_or_a_regular_expression_from_the_start() -> None:
    module = "model.layers.3.mlp.gate"
    assert all(matches(pattern, module) for pattern in ("Linear", module, "mlp.gate", r"re:.*\.gate$", "re:model"))
    assert not any(matches(pattern, module) for pattern in ("re:layers", "LagunaExperts", "ate", r".*\.gate$"))


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"quantization_config": None},
        {"quantization": {"group_size": 16, "bits": 4, "mode": "nvfp4"}},
        {"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}},
        {"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"quant_method": "awq"}},
    ],
)
def test_plain_weights_and_mlxs_own_packing_are_left_to_the_loader(raw: dict[str, Any]) -> None:
    assert compressed(raw) is None
    assert loader_settings(raw) == {}


def test_mlxs_settings_under_the_other_name_are_handed_over() -> None:
    raw = {"quantization_config": {"group_size": 32, "bits": 8, "mode": "mxfp8"}}
    assert compressed(raw) is None
    assert loader_settings(raw) == {"quantization": raw["quantization_config"]}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "quant_method is 'gptq'; it must be 'compressed-",
        ),
        ({"quantization_config": {"quant_algo": "NVFP4"}}, "quant_method is 'missing'"),
        (stated("int-quantized", INT4), "format is 'int-quantized'; it must be one of 'pack-quantized', 'nvfp4-pack"),
        (stated("mxfp4-pack-quantized", FP4), "format is 'mxfp4-pack-quantized'"),
        (stated(None, INT4), "format is 'missing'"),
        (stated("mixed-precision", INT4), "group_0: format is 'missing'; it must be given"),
        (stated("pack-quantized", INT4 | {"num_bits": 3}), "group_0: weights: num_bits is 3; it must be one of 4, 8"),
        (stated("pack-quantized", INT4 | {"type": "float"}), "weights: type is 'float'; it must be one of 'int'"),
        (stated("float-quantized", FP8 | {"symmetric": False}), "symmetric is False; .*floats have no zero points"),
        (stated("pack-quantized", INT4 | {"actorder": "group"}), "actorder is 'group'"),
        (stated("nvfp4-pack-quantized", FP4 | {"group_size": 32}), "group_size is 32; it must be 16"),
        (stated("float-quantized", FP8 | {"strategy": "group"}), "strategy is 'group'; it must be one of 'block'"),
        (stated("float-quantized", FP8 | {"block_structure": [128]}), r"block_structure is \[128\]; .*two positive"),
        (stated("pack-quantized", INT4, ignore="lm_head"), "ignore is 'lm_head'; it must be a list of strings"),
        (stated("pack-quantized", INT4, ignore=["re:("]), r"ignore is 're:\('; it must be a regular expression"),
    ],
)
def test_what_does_not_load_is_refused_by_name(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compressed(raw)


@pytest.mark.parametrize("key", ["config_groups", "transform_groups"])
@pytest.mark.parametrize("location", ["input", "output", "q_attn", "k_cache"])
def test_a_transform_of_activations_is_refused_by_its_place(key: str, location: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: R1: location is '{location}'; it must be 'weight_input' or"):
        compressed(stated("pack-quantized", INT4, transform_config={key: rotated(location)}))


@pytest.mark.parametrize("location", ["weight_input", "weight_output"])
def test_a_transform_of_weights_is_accepted_and_known(location: str) -> None:
    found = compressed(stated("pack-quantized", INT4, transform_config={"config_groups": rotated(location)}))
    assert found is not None
    assert found.rotated
    unrotated = compressed(stated("pack-quantized", INT4, transform_config={}))
    assert unrotated is not None
    assert not unrotated.rotated


def test_a_packing_stated_in_a_file_of_its_own_is_refused_by_name(tmp_path: Path) -> None:
    write_pair(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    with pytest.raises(ConfigError, match="quant_method is 'modelopt'; it must be 'compressed-tensors'"):
        load_target(tmp_path)
