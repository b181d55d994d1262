"""Which speculator belongs to which target, told from both configurations before a weight is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.config import SpeculatorConfig, TargetConfig
from models.config_fields import ConfigError
from models.errors import PairError, SpeculatorKindError
from models.pairing import check_pair, is_speculator, read_speculator
from tests.models.published import S_2_1_DFLASH, XS_2_1, XS_2_1_DFLASH, XS_2_SPECULATOR
from tests.models.tiny_checkpoint import SPECULATOR, TARGET

DFLASH = SPECULATOR["dflash_config"]


def written(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"hidden_size": 64}, "its hidden_size is 64, the target has 32"),
        ({"vocab_size": 98, "draft_vocab_size": 98}, "its vocab_size is 98, the target has 97"),
        (
            {"dflash_config": DFLASH | {"num_target_layers": 6}},
            "its dflash_config.num_target_layers is 6, the target has 5",
        ),
        (
            {
                "dflash_config": DFLASH | {"num_target_layers": 9, "target_layer_ids": [0, 5, 8]},
                "eagle_aux_hidden_state_layer_ids": None,
            },
            r"num_target_layers is 9, the target has 5; it reads the layers \[5, 8\], the target's last one is 4",
        ),
        (
            {"vocab_size": 200, "draft_vocab_size": 200, "dflash_config": DFLASH | {"mask_token_id": 150}},
            "its vocab_size is 200, the target has 97; its mask_token_id is 150, the target has 97 tokens",
        ),
    ],
)
def test_a_speculator_of_another_target_is_refused_with_all_facts_that_do_not_fit(
    overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        check_pair(TargetConfig.from_dict(TARGET), SpeculatorConfig.from_dict(SPECULATOR | overrides))


def test_the_published_pair_belongs_together_and_the_other_familys_does_not() -> None:
    target = TargetConfig.from_dict(XS_2_1)
    check_pair(target, SpeculatorConfig.from_dict(XS_2_1_DFLASH))
    with pytest.raises(PairError, match="its hidden_size is 3072, the target has 2048; its dflash_config"):
        check_pair(target, SpeculatorConfig.from_dict(S_2_1_DFLASH))


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("block_size", 1, "at least 2"),
        ("mask_token_id", 97, r"below vocab_size \(97\)"),
        ("target_layer_ids", [0, 2, 5], "layers in 0..4"),
        ("target_layer_ids", [], "one or more layers"),
        ("causal", False, "true"),
    ],
)
def test_a_fact_that_contradicts_itself_is_refused_by_its_field(field: str, value: object, wanted: str) -> None:
    raw = SPECULATOR | {"dflash_config": DFLASH | {field: value}, "eagle_aux_hidden_state_layer_ids": None}
    with pytest.raises(ConfigError, match=f"dflash_config: {field} is .*{wanted}"):
        SpeculatorConfig.from_dict(raw)


def test_the_speculator_of_xs_2_is_refused_by_its_kind_with_advice(tmp_path: Path) -> None:
    assert is_speculator(written(tmp_path, XS_2_SPECULATOR))
    with pytest.raises(SpeculatorKindError, match=r"DFlashDraftModel.*draft_vocab_size 32000.*--speculator none"):
        read_speculator(tmp_path)


def test_a_target_is_no_speculator(tmp_path: Path) -> None:
    assert not is_speculator(written(tmp_path, XS_2_1))
    assert is_speculator(written(tmp_path, XS_2_1_DFLASH))
    assert read_speculator(tmp_path) == SpeculatorConfig.from_dict(XS_2_1_DFLASH)
