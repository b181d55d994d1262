"""Published spellings mean one thing; what cannot be honoured is refused by field, value and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.config import SpeculatorConfig, TargetConfig, read_json
from models.config_fields import ConfigError, RopeConfig
from tests.models.published import M_1, S_2_1_DFLASH, SLIDING, XS_2_1, XS_2_1_DFLASH, XS_2_FLAT, XS_2_MIXED, YARN

TURN = RopeConfig(kind="default", theta=10000.0, dims=128)


def test_the_published_target_layout_is_read_layer_by_layer() -> None:
    config = TargetConfig.from_dict(XS_2_1)
    assert config.num_layers == 40
    full, sliding = config.attention[0], config.attention[39]
    assert (full.heads, full.window, full.gate_rows) == (48, None, 48)
    assert (sliding.heads, sliding.window, sliding.gate_rows) == (64, 512, 64)
    assert full.rope == RopeConfig("yarn", 500000.0, 64, 32.0, 8192, 64.0, 1.0, 1.3465735902799727)
    assert sliding.rope == TURN
    assert config.sparse == (False,) + (True,) * 39
    assert config.experts is not None
    assert (config.experts.count, config.experts.per_token, config.experts.scaling) == (256, 8, 2.5)
    assert (config.experts.score, config.experts.normalise, config.experts.softcap) == ("sigmoid", True, 0.0)


def test_the_stated_attention_factor_equals_the_derived_one_in_current_configs() -> None:
    rope = TargetConfig.from_dict(XS_2_1).attention[0].rope
    assert rope.derived_factor == pytest.approx(rope.attention_factor)
    assert TURN.derived_factor == 1.0


def test_a_length_beside_the_nested_ropes_counts_where_the_nested_one_is_missing() -> None:
    rope = TargetConfig.from_dict(XS_2_MIXED).attention[0].rope
    assert (rope.original_length, rope.factor, rope.dims, rope.attention_factor) == (4096, 64.0, 64, 1.0)
    at_top = XS_2_1 | {
        "original_max_position_embeddings": 4096,
        "rope_parameters": {
            "full_attention": {k: v for k, v in YARN.items() if k != "original_max_position_embeddings"},
            "sliding_attention": SLIDING,
        },
    }
    assert TargetConfig.from_dict(at_top).attention[0].rope.original_length == 4096


def test_flat_rope_parameters_are_those_of_the_full_layers() -> None:
    config = TargetConfig.from_dict(XS_2_FLAT)
    assert config.attention[0].rope.original_length == 4096
    assert config.attention[0].rope.dims == 64
    assert config.attention[1].rope == RopeConfig("linear", 10000.0, 128)


def test_a_model_without_sliding_layers_needs_no_window_and_may_scale_its_rope_at_the_top() -> None:
    config = TargetConfig.from_dict(M_1)
    assert {attention.window for attention in config.attention} == {None}
    assert config.attention[0].rope == RopeConfig("yarn", 500000.0, 128, 32.0, 4096, 64.0, 1.0, 1.0)
    assert config.attention[0].gate_rows == 64 * 128
    assert config.sparse == (False,) * 3 + (True,) * 67


def test_a_gate_spelled_true_is_per_head_and_a_list_speaks_for_each_layer() -> None:
    assert TargetConfig.from_dict(XS_2_FLAT).attention[0].gating == "per-head"
    listed = TargetConfig.from_dict(XS_2_1 | {"gating_types": ["per_head"] * 38 + ["per-head", "per_element"]})
    assert [attention.gating for attention in listed.attention] == ["per-head"] * 39 + ["per-element"]


def test_without_a_list_the_first_layer_is_dense_and_a_step_may_skip_others() -> None:
    raw = {key: value for key, value in XS_2_1.items() if key not in ("mlp_layer_types", "mlp_only_layers")}
    assert TargetConfig.from_dict(raw).sparse == (False,) + (True,) * 39
    assert TargetConfig.from_dict(raw | {"decoder_sparse_step": 2}).sparse == (False, True) * 20
    without = TargetConfig.from_dict(XS_2_1 | {"num_experts": 0})
    assert without.experts is None
    assert set(without.sparse) == {False}


def test_the_older_router_spelling_means_softmax() -> None:
    experts = TargetConfig.from_dict(XS_2_1 | {"moe_router_use_sigmoid": False}).experts
    assert experts is not None
    assert experts.score == "softmax"


def test_the_published_speculator_layouts_are_read() -> None:
    config = SpeculatorConfig.from_dict(XS_2_1_DFLASH)
    assert (config.block_size, config.mask_token_id, config.num_target_layers) == (16, 12, 40)
    assert config.target_layer_ids == (1, 13, 25, 33, 39)
    assert {(layer.heads, layer.window, layer.gating) for layer in config.attention} == {(64, 512, "per-head")}
    assert config.attention[0].rope == RopeConfig("default", 500000.0, 128)
    larger = SpeculatorConfig.from_dict(S_2_1_DFLASH)
    assert (larger.num_layers, larger.target_layer_ids[-1], larger.attention[5].window) == (6, 47, 512)


def test_the_architecture_decides_and_not_the_model_type() -> None:
    assert XS_2_1["model_type"] == XS_2_1_DFLASH["model_type"]
    with pytest.raises(ConfigError, match=r"dflash_config is .* must be absent: this is a speculator"):
        TargetConfig.from_dict(XS_2_1_DFLASH)
    with pytest.raises(ConfigError, match=r"architectures is \['LagunaForCausalLM'\]; .*'DFlashLagunaForCausalLM'"):
        SpeculatorConfig.from_dict(XS_2_1)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"hidden_size": "2048"}, "hidden_size is '2048'; it must be an integer of at least 1"),
    ({"hidden_size": True}, "hidden_size is True; it must be an integer"),
    ({"vocab_size": None}, "vocab_size is None; it must be an integer"),
    ({"rms_norm_eps": 0}, "rms_norm_eps is 0; it must be a number above 0"),
    ({"rms_norm_eps": "tiny"}, "rms_norm_eps is 'tiny'; it must be a number"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; it must be true or false"),
    (
        {"gating": "per-row"},
        "gating is 'per-row'; it must be one of True, False, 'per-head', 'per-element', 'per_head'",
    ),
    ({"gating": 1}, "gating is 1; it must be one of"),
    ({"gating_types": ["per-head"]}, "gating_types is .'per-head'.; it must be a list of 40 entries"),
    ({"gating_types": ["per-row"] * 40}, "gating_types is 'per-row'; it must be one of True"),
    ({"architectures": ["LlamaForCausalLM"]}, "architectures is .'LlamaForCausalLM'.; it must be a list with"),
    ({"layer_types": ["full_attention"] * 39}, "layer_types is .*; it must be a list of 40 entries"),
    ({"layer_types": ["full"] * 40}, "layer_types is .*; it must be a list of 'full_attention' and"),
    ({"layer_types": "full"}, "layer_types is 'full'; it must be a list of 'full_attention' and"),
    ({"num_experts": 2.5}, "num_experts is 2.5; it must be an integer"),
    ({"sliding_window": 0}, "sliding_window is 0; it must be a positive number of keys"),
    ({"swa_attention_sink_enabled": True}, "swa_attention_sink_enabled is True; it must be false"),
    (
        {"num_attention_heads_per_layer": [48] * 39},
        "num_attention_heads_per_layer .*; it must be a list of 40 integers",
    ),
    ({"num_attention_heads_per_layer": [48.0] * 40}, "num_attention_heads_per_layer .*; it must be a list of integers"),
    (
        {"num_attention_heads_per_layer": [48] * 39 + [12]},
        "num_attention_heads_per_layer is .*; it must be multiples of num_key_value_heads .8.; see 39",
    ),
    ({"mlp_layer_types": ["dense"]}, "mlp_layer_types is .'dense'.; it must be a list of 40 entries"),
    ({"num_experts_per_tok": 257}, r"num_experts_per_tok is 257; it must be at most num_experts \(256\)"),
    ({"moe_apply_router_weight_on_input": True}, "moe_apply_router_weight_on_input is True; it must be false"),
    ({"moe_router_score_func": "relu"}, "moe_router_score_func is 'relu'; it must be one of 'sigmoid'"),
    ({"moe_router_logit_softcapping": -1.0}, "moe_router_logit_softcapping is -1.0; it must be a number of at least 0"),
    ({"rope_parameters": None}, "rope_parameters is None; it must be an object with 'full_attention' in it"),
    ({"rope_parameters": [1]}, r"rope_parameters is \[1\]; it must be an object"),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSED, ids=[f"{min(o)}-{i}" for i, (o, _) in enumerate(REFUSED)])
def test_a_target_field_that_will_not_do_is_refused_with_its_value_and_a_remedy(
    overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"target config: {message}"):
        TargetConfig.from_dict(XS_2_1 | overrides)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_type": "llama3"},
            "rope of full_attention: rope_type is 'llama3'; it must be one of 'default', 'linear'",
        ),
        ({"original_max_position_embeddings": None}, "original_max_position_embeddings is None; it must be an integer"),
        ({"factor": 0.5}, "factor is 0.5; it must be a number of at least 1"),
        ({"rope_theta": None}, "rope_theta is None; it must be a number"),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5; it must be a share of head_dim"),
        ({"partial_rotary_factor": 0.008}, "partial_rotary_factor is 0.008; it must be a share of head_dim"),
    ],
)
def test_positions_that_cannot_be_turned_are_refused(changes: dict[str, Any], message: str) -> None:
    ropes = {"full_attention": YARN | changes, "sliding_attention": SLIDING}
    with pytest.raises(ConfigError, match=message):
        TargetConfig.from_dict(XS_2_1 | {"rope_parameters": ropes})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"draft_vocab_size": 32000}, r"draft_vocab_size is 32000; it must be vocab_size \(100352\)"),
        ({"layer_types": ["full_attention"] * 5}, "layer_types is .*; it must be only 'sliding_attention'"),
        ({"sliding_windows": [512] * 4 + [1]}, "sliding_windows is .*; it must be numbers of keys of at least 2"),
        ({"num_attention_heads": 63}, "num_attention_heads is 63; it must be a multiple of num_key_value_heads"),
        (
            {"eagle_aux_hidden_state_layer_ids": [1, 13, 25, 33, 39]},
            r"must be target_layer_ids \+ 1: .2, 14, 26, 34, 40.",
        ),
        ({"rope_theta": None}, "rope_parameters is 'missing'; it must be an object"),
        ({"dflash_config": None}, "dflash_config is None; it must be an object"),
    ],
)
def test_a_speculator_field_that_will_not_do_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpeculatorConfig.from_dict(XS_2_1_DFLASH | overrides)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"causal": False}, "dflash_config: causal is False; it must be true"),
        ({"block_size": 1}, "block_size is 1; it must be at least 2: an anchor and one draft"),
        ({"mask_token_id": 100352}, r"mask_token_id is 100352; it must be below vocab_size \(100352\)"),
        ({"target_layer_ids": [1, 40]}, r"target_layer_ids is \[1, 40\]; it must be one or more layers in 0..39"),
        ({"target_layer_ids": []}, "target_layer_ids is .*; it must be one or more layers"),
    ],
)
def test_a_block_that_cannot_be_drafted_is_refused(changes: dict[str, Any], message: str) -> None:
    dflash = XS_2_1_DFLASH["dflash_config"] | changes
    with pytest.raises(ConfigError, match=message):
        SpeculatorConfig.from_dict(XS_2_1_DFLASH | {"dflash_config": dflash})


def test_an_error_keeps_its_field_value_and_remedy_apart() -> None:
    with pytest.raises(ConfigError) as caught:
        TargetConfig.from_dict(XS_2_1 | {"head_dim": 0})
    error = caught.value
    assert (error.field, error.value, error.wanted) == ("target config: head_dim", 0, "an integer of at least 1")


def test_configurations_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(XS_2_1))
    assert TargetConfig.from_path(tmp_path) == TargetConfig.from_dict(XS_2_1)
    (tmp_path / "config.json").write_text(json.dumps(XS_2_1_DFLASH))
    assert SpeculatorConfig.from_path(tmp_path) == SpeculatorConfig.from_dict(XS_2_1_DFLASH)


def test_a_file_that_holds_no_json_object_is_refused_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(ConfigError, match=r"config.json is 'missing'; it must be a file of the checkpoint"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"config.json is 'not JSON .*; it must be one JSON object"):
        read_json(path)
    path.write_text("[]")
    with pytest.raises(ConfigError, match=r"config.json is 'list'; it must be one JSON object"):
        read_json(path)
