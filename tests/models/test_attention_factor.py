"""YaRN's attention factor: derived unless the file's own is asked for, and a difference is always told."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.rope_utils import YarnRoPE

from models.checkpoint import load_target
from models.config import TargetConfig
from models.config_fields import RopeConfig
from models.contract import Row
from models.laguna import Laguna
from models.loading import Loading, attention_factor_warnings, with_attention_factor
from models.rope import Rotary
from tests.models.published import M_1, XS_2_1, XS_2_FLAT, XS_2_MIXED
from tests.models.tiny_checkpoint import TARGET, write_pair

YARN = TARGET["rope_parameters"]["full_attention"]
DERIVED = 1.138629436111989


def logits(model: Laguna) -> np.ndarray:
    return np.array(model(mx.arange(40), [Row(0, 40, model.make_caches(0))]).logits)


def with_factor(stated: float | None) -> dict[str, object]:
    return TARGET["rope_parameters"] | {"full_attention": YARN | {"attention_factor": stated}}


@pytest.mark.parametrize(("chosen", "factor"), [(False, 0.1 * np.log(32) + 1), (True, 1.25)])
def test_queries_are_scaled_by_the_factor_that_counts(chosen: bool, factor: float) -> None:
    rotary = Rotary(RopeConfig("yarn", 5e5, 8, 32.0, 64, attention_factor=1.25, as_stated=chosen), 16)
    weight = np.array(rotary.scaled(mx.ones(16)))
    np.testing.assert_allclose(weight, [factor] * 8 + [1.0] * 8, rtol=1e-6)


def test_the_derived_factor_is_mlx_lms() -> None:
    for factor in (1.0, 4.0, 32.0, 128.0):
        theirs = YarnRoPE(16, scaling_factor=factor).mscale
        assert RopeConfig("yarn", 5e5, 16, factor, 64).applied_factor == pytest.approx(theirs, rel=1e-12)


def test_the_files_factor_changes_what_the_network_says_only_where_it_is_asked_for(tmp_path: Path) -> None:
    write_pair(tmp_path, rope_parameters=with_factor(1.0))
    derived, stated = (load_target(tmp_path, loading=Loading(attention_factor=f)) for f in ("derived", "config"))
    write_pair(tmp_path, rope_parameters=with_factor(DERIVED))
    plain = load_target(tmp_path)
    np.testing.assert_array_equal(logits(derived), logits(plain))
    assert np.abs(logits(stated) - logits(plain)).max() > 0.01
    write_pair(tmp_path, rope_parameters=with_factor(None))
    nothing_stated = load_target(tmp_path, loading=Loading(attention_factor="config"))
    np.testing.assert_array_equal(logits(nothing_stated), logits(plain))


@pytest.mark.parametrize(
    ("raw", "stated", "derived"),
    [(XS_2_MIXED, 1.0, "1.4159"), (XS_2_FLAT, 1.0, "1.3466"), (M_1, 1.0, "1.3466"), (XS_2_1, None, "")],
)
def test_a_difference_is_told_with_both_values_and_the_one_in_use(
    raw: dict[str, object], stated: float | None, derived: str
) -> None:
    config = TargetConfig.from_dict(raw)
    said = attention_factor_warnings(config)
    asked = attention_factor_warnings(with_attention_factor(config, "config"))
    if stated is None:
        assert said == asked == ()
        return
    assert [f"attention_factor is {stated} in the config and {derived} derived" in text for text in said + asked] == [
        True,
        True,
    ]
    assert "the derived one is used" in said[0]
    assert "the config's is used" in asked[0]
