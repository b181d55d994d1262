"""A cache of every position whose keys and values are packed to a few bits: smaller, and no longer exact."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from models.cache import CacheError, grown
from models.contract import Rows, copied


@dataclass
class PackedCache:
    """Every position of one session, each row packed by itself (affine), so that how rows arrive makes no difference.

    What attention is given is unpacked to the dtype that came in, for one layer at a time.
    """

    bits: int
    group: int
    room: int = 0
    """Positions that are foreseen: up to there nothing is ever moved."""
    offset: int = 0
    """Tokens seen, rolled back ones not counted."""
    _buffers: list[mx.array] = field(default_factory=list)
    """Packed keys, their scales and offsets, then the same of the values: each [1, heads, capacity, ...]."""

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers held, for evaluation."""
        return tuple(self._buffers)

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows [1, heads, L, head_dim] and return all rows, oldest first, as they are remembered."""
        rows = [*self._packed(keys), *self._packed(values)]
        stop = self.offset + keys.shape[2]
        self._reserve(stop, rows)
        for buffer, part in zip(self._buffers, rows, strict=True):
            buffer[:, :, self.offset : stop] = part
        self.offset = stop
        held = [buffer[:, :, :stop] for buffer in self._buffers]
        return self._unpacked(held[:3]), self._unpacked(held[3:])

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens.

        Raises:
            CacheError: `n` is negative or more than was seen.
        """
        if not 0 <= n <= self.offset:
            raise CacheError(f"cannot go back {n} tokens of {self.offset}")
        self.offset -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of the packed rows `start..stop`.

        Raises:
            CacheError: they are not all there.
        """
        if not 0 <= start <= stop <= self.offset:
            raise CacheError(f"cannot copy rows {start}..{stop}: {self.offset} were seen")
        held = self._buffers if start < stop else []
        return Rows(start, stop, tuple(copied(buffer, start, stop) for buffer in held), whole=True)

    def restore(self, parts: Sequence[Rows]) -> None:
        """Hold the packed rows of `parts`, which lie end to end from 0 on, in buffers of its own.

        Raises:
            CacheError: this cache is not empty, or rows are missing, or they are not packed.
        """
        ends = [0, *(part.stop for part in parts)]
        fitting = all(part.whole and len(part.arrays) in (0, 6) for part in parts)
        if self.offset or [part.start for part in parts] != ends[:-1] or not fitting:
            raise CacheError(f"a packed cache at {self.offset} cannot resume from {len(parts)} parts up to {ends[-1]}")
        for part in (part for part in parts if part.arrays):
            self._reserve(ends[-1] + 1, part.arrays)
            for buffer, rows in zip(self._buffers, part.arrays, strict=True):
                buffer[:, :, part.start : part.stop] = rows
        self.offset = ends[-1]

    def _packed(self, rows: mx.array) -> tuple[mx.array, ...]:
        return tuple(mx.quantize(rows, self.group, self.bits))

    def _unpacked(self, parts: Sequence[mx.array]) -> mx.array:
        return mx.dequantize(*parts, group_size=self.group, bits=self.bits)

    def _reserve(self, needed: int, like: Sequence[mx.array]) -> None:
        capacity = self._buffers[0].shape[2] if self._buffers else 0
        if needed <= capacity:
            return
        capacity = grown(capacity, needed, self.room)
        fresh = [mx.zeros((*rows.shape[:2], capacity, rows.shape[3]), rows.dtype) for rows in like]
        for buffer, old in zip(fresh, self._buffers, strict=False):
            buffer[:, :, : self.offset] = old[:, :, : self.offset]
        self._buffers = fresh
