"""Gates that mlx-lm's Laguna does not have, and a router it does not have, against plain arithmetic."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models.config import TargetConfig
from models.contract import Row
from models.experts import Experts
from models.laguna import Laguna
from tests.models.closeness import assert_same
from tests.models.random_laguna import parameters, random_weights, tokens
from tests.models.tiny_checkpoint import TARGET

ONE_LAYER: dict[str, Any] = {
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "mlp_layer_types": ["dense"],
    "num_attention_heads_per_layer": [4],
    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}},
}


def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def turn(x: np.ndarray) -> np.ndarray:
    """Rotate-half of [T, heads, head_dim] at positions 0.., all dimensions, theta 10000."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


def attention(x: np.ndarray, weights: dict[str, np.ndarray], heads: int, kv_heads: int, head_dim: int) -> np.ndarray:
    """One full layer's attention over [T, hidden] with a softplus gate on each element."""
    total = x.shape[0]
    queries = turn(norm((x @ weights["q_proj"].T).reshape(total, heads, head_dim), weights["q_norm"]))
    keys = turn(norm((x @ weights["k_proj"].T).reshape(total, kv_heads, head_dim), weights["k_norm"]))
    values = (x @ weights["v_proj"].T).reshape(total, kv_heads, head_dim)
    out = np.zeros((total, heads, head_dim))
    for head in range(heads):
        group = head // (heads // kv_heads)
        for at in range(total):
            scores = keys[: at + 1, group] @ queries[at, head] / np.sqrt(head_dim)
            shares = np.exp(scores - scores.max())
            out[at, head] = (shares / shares.sum()) @ values[: at + 1, group]
    gate = np.log1p(np.exp(x @ weights["g_proj"].T))
    return (out.reshape(total, -1) * gate) @ weights["o_proj"].T


def test_a_gate_per_element_multiplies_every_element_of_the_attention_output() -> None:
    model = Laguna(TargetConfig.from_dict(TARGET | ONE_LAYER | {"gating": "per-element"}))
    model.load_weights(random_weights(model))
    named = {name.removesuffix(".weight"): np.array(value, dtype=np.float64) for name, value in parameters(model)}
    layer = {name.removeprefix("model.layers.0.").removeprefix("self_attn."): value for name, value in named.items()}
    assert layer["g_proj"].shape == (4 * 16, 32)
    ids = tokens(12)
    x = named["model.embed_tokens"][np.array(ids)]
    x = x + attention(norm(x, layer["input_layernorm"]), layer, heads=4, kv_heads=2, head_dim=16)
    y = norm(x, layer["post_attention_layernorm"])
    gate = y @ layer["mlp.gate_proj"].T
    x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["mlp.up_proj"].T)) @ layer["mlp.down_proj"].T
    expected = norm(x, named["model.norm"]) @ named["lm_head"].T
    got = model(ids, [Row(0, 12, model.make_caches(0))]).logits
    assert_same(got, expected, 2e-5)


@pytest.mark.parametrize("normalise", [True, False])
def test_a_softmax_router_weighs_its_experts_with_or_without_renormalising(normalise: bool) -> None:
    raw = TARGET | {"moe_router_use_sigmoid": False, "norm_topk_prob": normalise}
    config = TargetConfig.from_dict(raw).experts
    assert config is not None
    experts = Experts(32, config)
    experts.load_weights(random_weights(experts))
    weights = {name: np.array(value, dtype=np.float64) for name, value in parameters(experts)}
    x = np.random.default_rng(0).standard_normal((6, 32))
    logits = x @ weights["gate.proj.weight"].T
    scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = feed_forward(x, *(weights[f"shared_expert.{name}_proj.weight"] for name in ("gate", "up", "down")))
    for at, row in enumerate(x):
        chosen = np.argsort(-(scores[at] + weights["gate.e_score_correction_bias"]))[:2]
        total = scores[at, chosen].sum() if normalise else 1.0
        for expert in chosen:
            parts = (weights[f"switch_mlp.{name}_proj.weight"][expert] for name in ("gate", "up", "down"))
            expected[at] += 1.5 * scores[at, expert] / total * feed_forward(row, *parts)
    assert_same(experts(mx.array(x, dtype=mx.float32)), expected, 2e-5)


def feed_forward(x: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    opened = x @ gate.T
    return (opened / (1 + np.exp(-opened)) * (x @ up.T)) @ down.T
