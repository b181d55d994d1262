"""The target written out in numpy, float64: no caches, no batch, no MLX. An oracle for whole checkpoints.

It takes published tensor names, unpacked, and a configuration in one canonical spelling: `TARGET` of tiny_checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log, pi
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]


def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


def frequencies(rope: Mapping[str, Any], dims: int) -> tuple[np.ndarray, float]:
    """Radians a position for each pair [dims / 2], and the turned part's scale (YaRN, arXiv 2309.00071)."""
    pairs = np.arange(dims // 2)
    plain = rope["rope_theta"] ** (-2.0 * pairs / dims)
    if rope["rope_type"] != "yarn":
        return plain / rope.get("factor", 1.0), 1.0

    def turns(count: float) -> float:
        return dims * log(rope["original_max_position_embeddings"] / (count * 2 * pi)) / (2 * log(rope["rope_theta"]))

    low, high = max(floor(turns(rope["beta_fast"])), 0), min(ceil(turns(rope["beta_slow"])), dims - 1)
    slow = np.clip((pairs - low) / max(high - low, 0.001), 0, 1)
    return plain * (1 - slow) + plain / rope["factor"] * slow, rope.get("used", 0.1 * log(rope["factor"]) + 1.0)


def turned(x: np.ndarray, rope: Mapping[str, Any]) -> np.ndarray:
    """Heads [T, heads, head_dim] at positions 0..T: rotate-half over the first dimensions."""
    dims = int(x.shape[-1] * rope.get("partial_rotary_factor", 1.0))
    rates, scale = frequencies(rope, dims)
    angle = np.arange(x.shape[0])[:, None, None] * rates
    a, b, rest = x[..., : dims // 2] * scale, x[..., dims // 2 : dims] * scale, x[..., dims:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle), rest], -1)


@dataclass(frozen=True)
class PlainLaguna:
    """Unpacked tensors and the configuration."""

    config: Mapping[str, Any]
    weights: Weights

    def outputs(self, ids: Sequence[int]) -> list[np.ndarray]:
        """Each layer's output [T, hidden], and the logits [T, vocabulary] last."""
        h = self.weights["model.embed_tokens.weight"][list(ids)].astype(np.float64)
        states = []
        for layer, sparse in enumerate(kind == "sparse" for kind in self.config["mlp_layer_types"]):
            path = f"model.layers.{layer}"
            h = h + self.attention(norm(h, self.of(f"{path}.input_layernorm")), layer)
            x = norm(h, self.of(f"{path}.post_attention_layernorm"))
            h = h + (self.experts(x, f"{path}.mlp") if sparse else self.feed_forward(x, f"{path}.mlp"))
            states.append(h)
        return [*states, norm(h, self.of("model.norm")) @ self.of("lm_head").T]

    def of(self, module: str) -> np.ndarray:
        return self.weights[f"{module}.weight"].astype(np.float64)

    def attention(self, x: np.ndarray, layer: int) -> np.ndarray:
        config, path, length = self.config, f"model.layers.{layer}.self_attn", x.shape[0]
        kind, heads, head_dim = (
            config["layer_types"][layer],
            config["num_attention_heads_per_layer"][layer],
            config["head_dim"],
        )
        rope = config["rope_parameters"][kind]
        q, k, v = ((x @ self.of(f"{path}.{name}_proj").T).reshape(length, -1, head_dim) for name in ("q", "k", "v"))
        q = turned(norm(q, self.of(f"{path}.q_norm")), rope)
        k = turned(norm(k, self.of(f"{path}.k_norm")), rope)
        k, v = (np.repeat(each, heads // each.shape[1], axis=1) for each in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(head_dim)
        back = np.arange(length)[:, None] - np.arange(length)
        seen = (back >= 0) & (back < (config["sliding_window"] if kind == "sliding_attention" else length))
        scores = np.exp(np.where(seen, scores, -np.inf) - scores.max(-1, keepdims=True))
        out = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
        gate = softplus(x @ self.of(f"{path}.g_proj").T).reshape(length, heads, -1)
        return (out * gate).reshape(length, -1) @ self.of(f"{path}.o_proj").T

    def feed_forward(self, x: np.ndarray, path: str) -> np.ndarray:
        gate, up, down = (self.of(f"{path}.{name}_proj") for name in ("gate", "up", "down"))
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    def experts(self, x: np.ndarray, path: str) -> np.ndarray:
        config = self.config
        logits = x @ self.of(f"{path}.gate").T
        if cap := config["moe_router_logit_softcapping"]:
            logits = np.tanh(logits / cap) * cap
        scores = {
            "sigmoid": lambda: 1 / (1 + np.exp(-logits)),
            "sqrtsoftplus": lambda: np.sqrt(softplus(logits)),
            "softmax": lambda: np.exp(logits) / np.exp(logits).sum(-1, keepdims=True),
        }[config.get("moe_router_score_func", "sigmoid")]()
        biased = scores + self.weights[f"{path}.experts.e_score_correction_bias"]
        routed = np.zeros_like(x)
        for row, order in enumerate(np.argsort(-biased, axis=-1)[:, : config["num_experts_per_tok"]]):
            weights = scores[row, order] / (scores[row, order].sum() if config["norm_topk_prob"] else 1.0)
            for expert, weight in zip(order, weights, strict=True):
                routed[row] += weight * self.feed_forward(x[row], f"{path}.experts.{expert}")
        return routed * config["moe_routed_scaling_factor"] + self.feed_forward(x, f"{path}.shared_expert")
