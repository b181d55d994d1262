"""Rotary positions: one flat batch, each row at its own place in its own text."""

from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.rope_utils import YarnRoPE, initialize_rope

from models.composed import composes
from models.config_fields import RopeConfig

Turn = Callable[[mx.array], mx.array]
"""[T, heads, head_dim] to [1, heads, T, head_dim], each token turned to its position."""

_STEP = 1024
"""Positions by which the tables of the CPU grow."""


class Rotary(nn.Module):
    """Rotate-half over the first `dims` of a head, by mlx-lm's own tables.

    YaRN's attention factor is not applied here: it rides on the query and key norms (`scaled`), which saves six
    operations a layer and rounds once less.
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
        self.config, self.head_dim = config, head_dim
        self._turn = initialize_rope(config.dims, config.theta, traditional=False, scaling_config=scaling)
        self._factor: mx.array | None = None
        self._cos: mx.array | None = None
        self._sin: mx.array | None = None
        if isinstance(self._turn, YarnRoPE) and self._turn.mscale != 1.0:
            self._factor = mx.where(mx.arange(head_dim) < config.dims, self._turn.mscale, 1.0)
            self._turn.mscale = 1.0

    def scaled(self, weight: mx.array) -> mx.array:
        """A norm weight [head_dim] with the attention factor on its rotated part, in the weight's own dtype."""
        return weight if self._factor is None else (weight * self._factor).astype(weight.dtype)

    def at(self, positions: int | mx.array, total: int, end: int) -> Turn:
        """What turns `total` tokens below `end`: from one first position, or each to its own of `positions` [total]."""
        if composes() and self.head_dim % self.config.dims == 0:
            return self._composed(positions, total, end)
        if isinstance(positions, int):
            return lambda x: self._turn(x.transpose(1, 0, 2)[None], offset=positions)
        # Several rows: each token is a batch entry of length 1 with a position of its own.
        return lambda x: self._turn(x[:, :, None], offset=positions).transpose(2, 1, 0, 3)

    def _composed(self, positions: int | mx.array, total: int, end: int) -> Turn:
        """The same numbers from tables, in six operations where MLX composes its own kernel of thirty."""
        cos, sin = self._tables(end)
        at = slice(positions, positions + total) if isinstance(positions, int) else positions
        cos, sin = cos[at], sin[at]

        def turn(x: mx.array) -> mx.array:
            halves = x.reshape(total, -1, *cos.shape[2:])
            turned = halves * cos + halves[..., ::-1, :] * sin
            return turned.astype(x.dtype).reshape(1, total, -1, self.head_dim).transpose(0, 2, 1, 3)

        return turn

    def _tables(self, end: int) -> tuple[mx.array, mx.array]:
        """Cosines and signed sines of the positions up to `end`: [positions, 1, head_dim / dims, 2, dims / 2]."""
        if self._cos is None or self._sin is None or self._cos.shape[0] < end:
            count, half = -(-end // _STEP) * _STEP, self.config.dims // 2
            # Turning (1, 0) gives (cos, sin), from the very operations that these tables stand for.
            unit = mx.broadcast_to(mx.arange(2 * half) < half, (1, 1, count, 2 * half)).astype(mx.float32)
            cos, sin = mx.split(self._turn(unit, offset=0).reshape(count, 1, 1, 1, -1), 2, axis=-1)
            still = [(0, 0), (0, 0), (0, self.head_dim // self.config.dims - 1), (0, 0), (0, 0)]
            self._cos = mx.pad(mx.concatenate([cos, cos], axis=3), still, constant_values=1)
            self._sin = mx.pad(mx.concatenate([-sin, sin], axis=3), still)
            mx.eval(self._cos, self._sin)
        return self._cos, self._sin
