"""A speculator that passes everything on, for those that change one thing about a real one."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from models.contract import LayerCache, Row, Speculator


@dataclass(frozen=True)
class Forwarding:
    """`models.contract.Speculator`, as `real` is."""

    real: Speculator

    @property
    def block_size(self) -> int:
        return self.real.block_size

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        return self.real.target_layer_ids

    def make_context(self) -> list[LayerCache]:
        return self.real.make_context()

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        return self.real.fuse(taps)

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        self.real.absorb(fused, rows)

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        return self.real.draft_block(anchors, rows)
