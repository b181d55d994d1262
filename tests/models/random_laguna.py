"""Random weights for either network, and ids to read."""

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from models.settling import evaluate, make_ready
from tests.models.tiny_checkpoint import TARGET

TOKENS = 90


def random_weights(model: nn.Module, seed: int = 0) -> list[tuple[str, mx.array]]:
    """Weights large enough for a wrong position, mask or expert to show: norms around 1, the rest by fan-in."""
    keys = iter(mx.random.split(mx.random.key(seed), 400))
    noise = [(name, 1.5 * mx.random.normal(value.shape, key=next(keys))) for name, value in parameters(model)]
    return [
        (name, 1 + 0.2 * value if "norm" in name else value / (1 if value.ndim == 1 else value.shape[-1] ** 0.5))
        for name, value in noise
    ]


def settle(model: nn.Module, dtype: mx.Dtype) -> None:
    """Make loaded weights ready to run, as loading a checkpoint does."""
    make_ready(model, dtype)
    evaluate(model)


def parameters(model: nn.Module) -> list[tuple[str, mx.array]]:
    flat = tree_flatten(model.parameters())
    assert isinstance(flat, list)
    return flat


def tokens(count: int = TOKENS, seed: int = 7) -> mx.array:
    return mx.random.randint(0, TARGET["vocab_size"], (count,), key=mx.random.key(seed))
