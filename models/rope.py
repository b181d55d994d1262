"""Rotary positions: one flat batch, each row at its own place in its own text."""

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.rope_utils import YarnRoPE, initialize_rope

from models.config_fields import RopeConfig


class Rotary(nn.Module):
    """Rotate-half over the first `dims` of a head, by mlx-lm's own tables.

    The attention factor of YaRN (arXiv 2309.00071) is not applied here: it rides on the query and key norms (`scaled`),
    which saves six operations a layer and rounds once less.
    """

    def __init__(self, config: RopeConfig, head_dim: int) -> None:
        super().__init__()
        scaling = {"rope_type": config.kind, "factor": config.factor}
        if config.kind == "yarn":
            scaling |= {
                "original_max_position_embeddings": config.original_length,
                "beta_fast": config.beta_fast,
                "beta_slow": config.beta_slow,
            }
        self._turn = initialize_rope(config.dims, config.theta, traditional=False, scaling_config=scaling)
        self._factor: mx.array | None = None
        if config.applied_factor != 1.0:
            self._factor = mx.where(mx.arange(head_dim) < config.dims, config.applied_factor, 1.0)
        if isinstance(self._turn, YarnRoPE):
            self._turn.mscale = 1.0

    def scaled(self, weight: mx.array) -> mx.array:
        """A norm weight [head_dim] with the attention factor on its rotated part, in the weight's own dtype."""
        return weight if self._factor is None else (weight * self._factor).astype(weight.dtype)

    def __call__(self, x: mx.array, positions: int | mx.array) -> mx.array:
        """Turn `x` [B, heads, L, head_dim]: from one first position, or from one for each of the B."""
        return self._turn(x, offset=positions)
