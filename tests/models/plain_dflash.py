"""The speculator written out in numpy: no caches, no batch, one query at a time. The oracle of `test_dflash_laguna`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]


def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def turned(x: np.ndarray, position: int, theta: float) -> np.ndarray:
    """One token's heads [heads, head_dim], rotate-half over the whole head."""
    half = x.shape[-1] // 2
    angle = position * theta ** (-np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


@dataclass(frozen=True)
class PlainDFlash:
    """Published tensors (fused qkv_proj) as float64, the config as it is written, and what the target lends."""

    config: Mapping[str, Any]
    weights: Weights
    embedding: np.ndarray
    head: np.ndarray

    def fuse(self, taps: Sequence[np.ndarray]) -> np.ndarray:
        normed = [norm(tap, self.weights[f"aux_hidden_norms.{at}.weight"]) for at, tap in enumerate(taps)]
        return norm(np.concatenate(normed, axis=-1) @ self.weights["fc.weight"].T, self.weights["hidden_norm.weight"])

    def draft(self, taps: Sequence[np.ndarray], anchor: int, drafts: int) -> np.ndarray:
        """Logits [drafts, vocabulary] of the block after a context that is given as all its tapped states."""
        context = self.fuse(taps)
        ids = [anchor] + [self.config["dflash_config"]["mask_token_id"]] * drafts
        x = self.embedding[ids]
        for index in range(self.config["num_hidden_layers"]):
            x = self.layer(f"layers.{index}", x, context)
        return norm(x, self.weights["norm.weight"])[1:] @ self.head.T

    def layer(self, name: str, x: np.ndarray, context: np.ndarray) -> np.ndarray:
        weights = {key.removeprefix(f"{name}."): value for key, value in self.weights.items()}
        block = norm(x, weights["input_layernorm.weight"])
        everything = np.concatenate([norm(context, weights["input_layernorm.weight"]), block])
        tokens = [self.qkv(row, at, weights) for at, row in enumerate(everything)]
        out = np.stack([self.attend(tokens, len(context) + at) for at in range(len(x))])
        gate = np.log1p(np.exp(block @ weights["self_attn.g_proj.weight"].T))
        x = x + (out * gate[:, :, None]).reshape(len(x), -1) @ weights["self_attn.o_proj.weight"].T
        y = norm(x, weights["post_attention_layernorm.weight"])
        opened = y @ weights["mlp.gate_proj.weight"].T
        up = y @ weights["mlp.up_proj.weight"].T
        return x + (opened / (1 + np.exp(-opened)) * up) @ weights["mlp.down_proj.weight"].T

    def qkv(self, row: np.ndarray, position: int, weights: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One token's queries, keys and values, normed and turned to its absolute position."""
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        split = (weights["self_attn.qkv_proj.weight"] @ row).reshape(heads + 2 * kv_heads, -1)
        queries = norm(split[:heads], weights["self_attn.q_norm.weight"])
        keys = norm(split[heads : heads + kv_heads], weights["self_attn.k_norm.weight"])
        theta = self.config["rope_theta"]
        return turned(queries, position, theta), turned(keys, position, theta), split[heads + kv_heads :]

    def attend(self, tokens: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], at: int) -> np.ndarray:
        """One query [heads, head_dim] over the `sliding_window` newest tokens, its own included."""
        visible = tokens[max(0, at + 1 - self.config["sliding_window"]) : at + 1]
        queries = tokens[at][0]
        out = np.zeros_like(queries)
        for head, query in enumerate(queries):
            group = head // (len(queries) // self.config["num_key_value_heads"])
            scores = np.array([keys[group] @ query for _, keys, _ in visible]) / np.sqrt(len(query))
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            out[head] = sum(share * values[group] for share, (_, _, values) in zip(shares, visible, strict=True))
        return out
