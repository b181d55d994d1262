"""Configurations and tensors that contradict the network: one named refusal each, and never another result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from models.checkpoint import find_checkpoint, load_speculator, load_target
from models.config import SpeculatorConfig, TargetConfig, read_json
from models.config_fields import ConfigError
from models.errors import CheckpointError
from models.generation import read_generation
from models.outline import outline
from tests.models.tiny_checkpoint import SPECULATOR, TARGET, write_pair

NAN, INFINITE = float("nan"), float("inf")
FULL: dict[str, Any] = TARGET["rope_parameters"]["full_attention"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rms_norm_eps": NAN}, "rms_norm_eps is nan; it must be a finite number"),
        ({"rms_norm_eps": INFINITE}, "rms_norm_eps is inf; it must be a finite number"),
        ({"moe_router_logit_softcapping": NAN}, "moe_router_logit_softcapping is nan"),
        ({"rope_parameters": TARGET["rope_parameters"] | {"full_attention": FULL | {"factor": NAN}}}, "factor is nan"),
        ({"rope_parameters": TARGET["rope_parameters"] | {"full_attention": FULL | {"rope_theta": 10**400}}}, "theta"),
        ({"head_dim": 10**12}, "head_dim is 1000000000000; it must be an integer of at most 2147483647"),
        ({"num_experts": 10**30}, "num_experts is 10+; it must be an integer of at most 2147483647"),
        ({"num_attention_heads_per_layer": [2**40] * 5}, "a list of integers of at most 2147483647"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; it must be one of 'silu'"),
        ({"layer_types": [["full_attention"]] * 5}, "layer_types is .* it must be a list of 'full_attention'"),
        ({"mlp_layer_types": [["dense"]] * 5}, "mlp_layer_types is .* it must be a list of 5 entries"),
        ({"architectures": "LagunaForCausalLM"}, "architectures is 'LagunaForCausalLM'; it must be a list"),
        ({"architectures": None, "model_type": "llama"}, "architectures is None; it must be a list"),
    ],
)
def test_a_field_of_a_target_that_will_not_do_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"target config: .*{message}"):
        TargetConfig.from_dict(TARGET | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rms_norm_eps": NAN}, "rms_norm_eps is nan"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"layer_types": [["sliding_attention"]] * 3}, "layer_types is"),
        ({"architectures": None}, "architectures is None; it must be a list with 'DFlashLagunaForCausalLM'"),
        ({"sliding_window": 10**12}, "sliding_window is 1000000000000"),
    ],
)
def test_a_field_of_a_speculator_that_will_not_do_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"speculator config: {message}"):
        SpeculatorConfig.from_dict(SPECULATOR | fields)


def test_a_target_without_architectures_is_known_by_its_model_type() -> None:
    assert TargetConfig.from_dict(TARGET | {"architectures": None}) == TargetConfig.from_dict(TARGET)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_json_without_an_end_to_its_depth_is_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json is 'not JSON"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("int4", "quantization is 'int4'; it must be an object"),
        ([4], r"quantization is \[4\]; it must be an object"),
        ({}, "quantization: group_size is 'missing'"),
        ({"group_size": 64, "bits": "4"}, "quantization: bits is '4'"),
        ({"group_size": 64, "bits": 4, "mode": "wow"}, "quantization: mode is 'wow'; it must be one of 'affine'"),
    ],
)
def test_settings_of_mlxs_packing_are_checked(tmp_path: Path, stated: object, message: str) -> None:
    write_pair(tmp_path, quantization=stated)
    with pytest.raises(ConfigError, match=f"target config: {message}"):
        load_target(tmp_path, mx.float32)


def test_zeros_that_are_left_out_are_refused(tmp_path: Path) -> None:
    sparse = {"quant_method": "compressed-tensors", "format": "pack-quantized", "sparsity_config": {"format": "x"}}
    write_pair(tmp_path, quantization_config=sparse)
    with pytest.raises(ConfigError, match="sparsity_config: format is 'x'; it must be one of 'dense'"):
        load_target(tmp_path, mx.float32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": NAN}, "temperature is nan"),
        ({"temperature": 10**400}, "temperature is 1000"),
        ({"top_k": 10**30}, "top_k is 1000"),
        ({"top_p": 1.5}, "top_p is 1.5; it must be a finite number of at most 1"),
        ({"min_p": 2.0}, "min_p is 2.0; it must be a finite number of at most 1"),
        ({"eos_token_id": [2, -5]}, r"eos_token_id is \[2, -5\]"),
        ({"default_chat_template_kwargs": {"messages": []}}, "messages is .*absent: the server sets it"),
    ],
)
def test_what_a_generation_config_cannot_ask_for_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=f"generation config: .*{message}"):
        read_generation(tmp_path)


Change = Callable[[dict[str, np.ndarray]], None]


def changed(folder: Path, change: Change) -> Path:
    """A target (and its speculator) of which one file holds something else."""
    write_pair(folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    "name",
    ["model.layers.0.self_attn.q_proj.weight", "model.norm.weight", "model.embed_tokens.weight", "lm_head.weight"],
)
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.bool_])
def test_integers_are_no_weights_without_scales(tmp_path: Path, name: str, kind: type[np.generic]) -> None:
    def as_integers(tensors: dict[str, np.ndarray]) -> None:
        tensors[name] = tensors[name].astype(kind)

    folder = changed(tmp_path, as_integers)
    with pytest.raises(CheckpointError, match=rf"{name} is of {np.dtype(kind)}, and this network reads floats there"):
        load_target(folder, mx.float32)
    with pytest.raises(CheckpointError, match=name):
        outline(folder, None)


def test_integers_in_a_speculator_are_refused_too(tmp_path: Path) -> None:
    target, drafter = write_pair(tmp_path)
    tensors = load_file(drafter / "model.safetensors")
    save_file(tensors | {"fc.weight": tensors["fc.weight"].astype(np.uint8)}, drafter / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"fc\.weight is of uint8, and this network reads floats there"):
        load_speculator(drafter, load_target(target, mx.float32), mx.float32)


def test_floats_wider_than_mlx_reads_are_named_with_their_tensor(tmp_path: Path) -> None:
    def widened(tensors: dict[str, np.ndarray]) -> None:
        tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float64)

    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is F64, which MLX does not read"):
        load_target(changed(tmp_path, widened), mx.float32)


def test_a_tensor_that_two_files_hold_is_refused_since_chance_would_choose(tmp_path: Path) -> None:
    write_pair(tmp_path)
    save_file({"model.norm.weight": np.zeros(32, np.float16)}, tmp_path / "model-old.safetensors")
    message = r"model-old\.safetensors and model\.safetensors both hold model\.norm\.weight"
    for load in (load_target, lambda folder: outline(folder, None)):
        with pytest.raises(CheckpointError, match=message):
            load(tmp_path)


def test_a_refusal_lists_a_few_tensors_and_counts_the_rest(tmp_path: Path) -> None:
    def crowded(tensors: dict[str, np.ndarray]) -> None:
        tensors |= {f"model.layers.{index}.extra": np.zeros(1, np.float16) for index in range(100, 900)}

    with pytest.raises(CheckpointError, match=r"Received 800 parameters not in model: .*and 796 more") as refused:
        load_target(changed(tmp_path, crowded), mx.float32)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "x" * 300, "x/" * 3000])
def test_a_name_that_the_system_cannot_look_up_is_no_checkpoint(name: str) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint '"):
        find_checkpoint(name)


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", forbidden)
    with pytest.raises(CheckpointError, match=f"{tmp_path} cannot be read: Permission denied"):
        find_checkpoint(str(tmp_path))
