"""Networks that cost nothing: what a round of the loop takes over them is what the loop itself takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from models.contract import LayerCache, Output, Row, Rows, Target
from tests.decode.forwarding import Forwarding


@cache
def _zeros(rows: int, width: int) -> mx.array:
    made = mx.zeros((rows, width))
    mx.eval(made)
    return made


@dataclass
class StillCache:
    """It counts."""

    offset: int = 0

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        return ()

    def rollback(self, n: int) -> None:
        self.offset -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        return Rows(start, stop, (), whole=True)

    def restore(self, parts: Sequence[Rows]) -> None:
        self.offset = parts[-1].stop


def _seen(rows: Sequence[Row]) -> None:
    for row in rows:
        for held in row.caches:
            assert isinstance(held, StillCache)
            held.offset += row.stop - row.start


@dataclass(frozen=True)
class StillTarget:
    """As many layers and logits as the real one; every draw is id 0."""

    real: Target
    hidden: int

    @property
    def vocab_size(self) -> int:
        return self.real.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        return [StillCache() for _ in self.real.make_caches(slack, room)]

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        _seen(rows)
        # The ids are made as a real pass would need them.
        mx.async_eval(ids)
        count = ids.size if logit_rows is None else logit_rows.size
        return Output(_zeros(count, self.vocab_size), tuple(_zeros(ids.size, self.hidden) for _ in taps))


@dataclass(frozen=True)
class StillSpeculator(Forwarding):
    """As many layers, taps and logits as the real one; every draft is id 0, and so accepted."""

    vocab_size: int

    def make_context(self) -> list[LayerCache]:
        return [StillCache() for _ in self.real.make_context()]

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        mx.async_eval(*taps)
        return taps[0]

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        _seen(rows)

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        mx.async_eval(anchors)
        return _zeros(rows[-1].stop - len(rows), self.vocab_size)
