"""What is composed for the CPU against MLX's own operations."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.rope_utils import initialize_rope

from models.composed import attend
from models.config_fields import RopeConfig
from models.rope import Rotary

HEAD_DIM, SCALE = 16, 0.25
CLOSE = 2e-6
KINDS = [
    RopeConfig("default", 10000.0, HEAD_DIM),
    RopeConfig("default", 500000.0, HEAD_DIM // 2),
    RopeConfig("linear", 10000.0, HEAD_DIM, factor=2.0),
    RopeConfig("yarn", 500000.0, HEAD_DIM // 4, factor=32.0, original_length=512),
    RopeConfig("default", 10000.0, 12),
]


def noise(*shape: int, seed: int = 0) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def their_turn(config: RopeConfig, x: mx.array, first: int) -> np.ndarray:
    """mlx-lm's rotary positions without YaRN's factor, of [T, heads, head_dim]."""
    scaling = {"rope_type": config.kind, "factor": config.factor, "original_max_position_embeddings": 512}
    turn = initialize_rope(config.dims, config.theta, traditional=False, scaling_config=scaling)
    if config.kind == "yarn":
        turn.mscale = 1.0
    return np.array(turn(x.transpose(1, 0, 2)[None], offset=first))


@pytest.mark.parametrize("config", KINDS, ids=lambda config: f"{config.kind} {config.dims}")
def test_positions_equal_mlx_lm_anywhere_in_a_text_and_one_by_one(config: RopeConfig) -> None:
    rotary, x = Rotary(config, HEAD_DIM), noise(5, 3, HEAD_DIM)
    for first in (0, 1020, 70, 5000):
        expected = their_turn(config, x, first)
        np.testing.assert_allclose(np.array(rotary.at(first, 5, first + 5)(x)), expected, rtol=0, atol=CLOSE)
        each = mx.arange(first, first + 5)
        np.testing.assert_allclose(np.array(rotary.at(each, 5, first + 5)(x)), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("length", [1, 6])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_attention_equals_mlx_with_and_without_a_mask(length: int, kv_heads: int, dtype: mx.Dtype) -> None:
    queries = noise(1, 4, length, HEAD_DIM).astype(dtype)
    keys, values = (noise(1, kv_heads, 40, HEAD_DIM, seed=seed).astype(dtype) for seed in (1, 2))
    visible = mx.arange(40) <= mx.arange(40 - length, 40)[:, None]
    for mask in (None, visible):
        added = None if mask is None else mx.where(mask, 0.0, -mx.inf)
        got = attend(queries, keys, values, SCALE, added)
        assert got.dtype == dtype
        expected = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=SCALE, mask=mask)
        close = CLOSE if dtype == mx.float32 else 2e-2
        np.testing.assert_allclose(*(np.array(x.astype(mx.float32)) for x in (got, expected)), rtol=0, atol=close)


def test_scores_beyond_the_range_of_the_exponential_are_attended_to() -> None:
    queries, keys, values = (noise(1, 2, 4, HEAD_DIM, seed=seed) for seed in (1, 2, 3))
    got = attend(1000 * queries, keys, values, 1.0, None)
    expected = mx.fast.scaled_dot_product_attention(1000 * queries, keys, values, scale=1.0)
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=0, atol=CLOSE)
