"""Experts in tiles: every row meets the experts that it chose, however the choices fall."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.switch_layers import SwitchGLU

from models.config_layers import ExpertsConfig
from models.experts import TILE, Experts, in_tiles

COUNT, HIDDEN, INNER = 5, 32, 64


@pytest.fixture(scope="module")
def experts() -> SwitchGLU:
    mx.random.seed(3)
    return SwitchGLU(HIDDEN, INNER, COUNT)


def choices(rows: int, each: int, shares: list[float]) -> mx.array:
    """For each row so many experts, drawn without repeats."""
    rng = np.random.default_rng(7)
    drawn = [rng.choice(COUNT, each, replace=False, p=np.array(shares) / sum(shares)) for _ in range(rows)]
    return mx.array(np.array(drawn, np.uint32))


@pytest.mark.parametrize("rows", [1, TILE, TILE + 1, 41])
@pytest.mark.parametrize("shares", [[1, 1, 1, 1, 1], [50, 20, 1, 1, 1], [1, 1, 1, 30, 90]])
def test_tiles_give_what_single_rows_do(experts: SwitchGLU, rows: int, shares: list[float]) -> None:
    x, chosen = mx.random.normal((rows, HIDDEN)), choices(rows, 2, shares)
    assert mx.allclose(in_tiles(experts, COUNT, x, chosen), experts(x, chosen), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("only", [0, COUNT - 1])
def test_all_rows_may_choose_one_expert(experts: SwitchGLU, only: int) -> None:
    x, chosen = mx.random.normal((3 * TILE, HIDDEN)), mx.full((3 * TILE, 1), only, mx.uint32)
    assert mx.allclose(in_tiles(experts, COUNT, x, chosen), experts(x, chosen), rtol=1e-4, atol=1e-6)


def test_a_layer_answers_alike_for_many_rows_and_for_few() -> None:
    mx.random.seed(4)
    config = ExpertsConfig(COUNT, 2, INNER, INNER, scaling=2.5, softcap=0.0, score="sigmoid", normalise=True)
    layer = Experts(HIDDEN, config)
    x = mx.random.normal((8 * COUNT * TILE, HIDDEN))
    apart = mx.concatenate([layer(x[start : start + 4]) for start in range(0, x.shape[0], 4)])
    assert mx.allclose(layer(x), apart, rtol=1e-4, atol=1e-5)
