"""How fast memory lets plain decoding be: bytes that a step touches, over the bandwidth that this machine reaches."""

import time
from dataclasses import dataclass

import mlx.core as mx
from mlx.utils import tree_flatten

from models.laguna import Laguna
from models.memory import Footprint


@dataclass(frozen=True)
class Traffic:
    """What is read of memory, in bytes."""

    dense: int
    """Weights that every pass reads: all but the experts and the rows of the embedding."""
    experts: int
    """All routed experts together."""
    number: int
    """Experts in a layer."""
    active: int
    """Of which so many answer a token."""
    per_token: int
    """Keys and values of the layers that see everything, for each token of the context."""
    windows: int
    """Those of the sliding layers and of the speculator's context, when full."""
    window: int
    """Tokens after which they are full; 0 without any."""
    drafting: int
    """Weights of the speculator, and of the head that it borrows."""

    def weights(self, rows: int) -> float:
        """Of a pass over so many rows that route independently: distinct experts are E (1 - (1 - k/E)^rows)."""
        share = 1 - (1 - self.active / self.number) ** rows if self.number else 0.0
        return self.dense + self.experts * share

    def step(self, rows: int, context: int) -> float:
        """Of a round of so many rows after `context` tokens, keys and values read once for all of them."""
        held = self.per_token * context + self.windows * min(1.0, context / self.window if self.window else 0.0)
        return self.weights(rows) + held + (self.drafting if rows > 1 else 0)


def traffic(target: Laguna, footprint: Footprint) -> Traffic:
    """Read the sizes off a loaded target."""
    config, flat = target.config, tree_flatten(target.parameters())
    sizes = {path: array.nbytes for path, array in flat if isinstance(array, mx.array)}
    experts = sum(size for path, size in sizes.items() if ".switch_mlp." in path)
    head = sum(size for path, size in sizes.items() if "lm_head" in path)
    rows_only = sum(size for path, size in sizes.items() if "embed_tokens" in path) if head else 0
    return Traffic(
        dense=sum(sizes.values()) - experts - rows_only,
        experts=experts,
        number=0 if config.experts is None else config.experts.count,
        active=0 if config.experts is None else config.experts.per_token,
        per_token=footprint.per_token,
        windows=footprint.window_rows,
        window=max((attention.window or 0 for attention in config.attention), default=0),
        drafting=footprint.speculator + (head or rows_only) if footprint.speculator else 0,
    )


def bandwidth(size: int = 128 * 2**20, repeats: int = 3) -> float:
    """Bytes a second that this device reads and writes in the best of several passes over `size` bytes of float32."""
    numbers = mx.zeros((size // 4,))
    mx.eval(numbers)
    best = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        mx.eval(numbers + 1.0)
        best = max(best, 2 * size / (time.perf_counter() - began))
    del numbers
    mx.clear_cache()
    return best
