"""The feed-forward half of a layer: a dense gated unit, or a router and its experts."""

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.activations import swiglu
from mlx_lm.models.switch_layers import SwitchGLU

from models.config_layers import ExpertsConfig
from models.kernels import on_cpu

TILE = 8
"""Rows of one expert that go together on the CPU, once there are twice as many for each expert."""


class FeedForward(nn.Module):
    """`down(silu(gate(x)) * up(x))` without biases."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        """[T, hidden] to [T, hidden]."""
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))


class Router(nn.Module):
    """Which experts a token goes to. Scores are float32 whatever the model's dtype: the choice is discrete."""

    def __init__(self, hidden_size: int, config: ExpertsConfig) -> None:
        super().__init__()
        self.config = config
        self.proj = nn.Linear(hidden_size, config.count, bias=False)
        self.e_score_correction_bias = mx.zeros((config.count,))

    def scores(self, logits: mx.array) -> mx.array:
        """Float32 logits to the scores that weigh the experts."""
        cap = self.config.softcap
        if cap:
            logits = mx.tanh(logits / cap) * cap
        match self.config.score:
            case "sigmoid":
                return mx.sigmoid(logits)
            case "sqrtsoftplus":
                return mx.sqrt(nn.softplus(logits))
            case "softmax":
                return mx.softmax(logits, axis=-1)

    def __call__(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """[T, hidden] to chosen experts [T, k] and their float32 weights [T, k]; the bias moves the choice only."""
        scores, k = self.scores(self.proj(x).astype(mx.float32)), self.config.per_token
        chosen = mx.argpartition(-(scores + self.e_score_correction_bias), kth=k - 1, axis=-1)[..., :k]
        weights = mx.take_along_axis(scores, chosen, axis=-1)
        if self.config.normalise:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        return chosen, weights


class Experts(nn.Module):
    """`scaling * sum of the chosen experts + the shared expert`, which has no gate."""

    def __init__(self, hidden_size: int, config: ExpertsConfig) -> None:
        super().__init__()
        self.scaling = config.scaling
        self.gate = Router(hidden_size, config)
        self.switch_mlp = SwitchGLU(hidden_size, config.intermediate_size, config.count)
        self.shared_expert = FeedForward(hidden_size, config.shared_intermediate_size)

    def __call__(self, x: mx.array) -> mx.array:
        """[T, hidden] to [T, hidden], in the dtype of `x`."""
        chosen, weights = self.gate(x)
        count = self.gate.config.count
        many = chosen.size >= 2 * count * TILE and x.dtype == mx.float32 and on_cpu()
        outputs = in_tiles(self.switch_mlp, count, x, chosen) if many else self.switch_mlp(x, chosen)
        routed = (outputs * weights[..., None]).sum(axis=-2).astype(x.dtype)
        return routed * self.scaling + self.shared_expert(x)


def in_tiles(experts: SwitchGLU, count: int, x: mx.array, chosen: mx.array) -> mx.array:
    """`experts(x, chosen)` of `count` experts for `x` [T, hidden], `chosen` [T, k]: products of `TILE` rows of one.

    On the CPU `mx.gather_mm` makes a product of each row. Rows that fill up a tile are computed and left.
    """
    flat = chosen.flatten()
    ranks = mx.cumsum(flat[:, None] == mx.arange(count), axis=0)
    tiles = (ranks[-1] + (TILE - 1)) // TILE
    ends = mx.cumsum(tiles)
    places = (ends - tiles)[flat] * TILE + mx.take_along_axis(ranks, flat[:, None], axis=1)[:, 0] - 1
    most = flat.size // TILE + count
    token = mx.zeros((most * TILE,), mx.int32)
    token[places] = mx.arange(flat.size) // chosen.shape[-1]
    whose = mx.minimum((ends <= mx.arange(most)[:, None]).sum(axis=1), count - 1)
    rows = x[token].reshape(most, TILE, -1)
    inner = experts.activation(experts.up_proj(rows, whose), experts.gate_proj(rows, whose))
    return experts.down_proj(inner, whose).flatten(0, 1)[places].reshape(*chosen.shape, -1)
