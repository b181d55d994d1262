"""What an attention layer remembers of one session, and the exact way back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from models.contract import Rows, copied

_STEP = 256
"""Rows by which a full cache grows at least; beyond 4096 it grows by a sixteenth, so that copying stays linear."""


class CacheError(RuntimeError):
    """A cache was asked for what it no longer holds, or for what it is not."""


def grown(capacity: int, needed: int, room: int) -> int:
    """Rows of the buffer that follows one of `capacity` rows when `needed` do not fit; `room` are foreseen."""
    wanted = room if needed <= room else max(needed, capacity + max(_STEP, capacity // 16))
    return -(-wanted // _STEP) * _STEP


@dataclass
class _Rows:
    """Keys and values side by side in two growing buffers [1, heads, capacity, head_dim]; rows up to `end` count."""

    keys: mx.array | None = None
    values: mx.array | None = None
    end: int = 0

    @property
    def capacity(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        return () if self.keys is None or self.values is None else (self.keys, self.values)

    def last(self, count: int) -> tuple[mx.array, mx.array]:
        """The newest `count` rows, as views."""
        assert self.keys is not None
        assert self.values is not None
        if count == self.end == self.capacity:
            return self.keys, self.values
        start = self.end - count
        return self.keys[:, :, start : self.end], self.values[:, :, start : self.end]

    def reallocate(self, keep: int, capacity: int, like: tuple[mx.array, mx.array]) -> None:
        """Move the newest `keep` rows to the front of fresh buffers of `capacity` rows."""
        fresh = [mx.zeros((*rows.shape[:2], capacity, rows.shape[3]), rows.dtype) for rows in like]
        if keep:
            for buffer, rows in zip(fresh, self.last(keep), strict=True):
                buffer[:, :, :keep] = rows
        self.keys, self.values = fresh
        self.end = keep

    def copy(self, start: int, stop: int) -> tuple[mx.array, ...]:
        """The rows `start..stop` of the buffers, in buffers of their own."""
        return tuple(copied(buffer, start, stop) for buffer in self.arrays if start < stop)

    def fill(self, parts: Sequence[Rows], capacity: int) -> None:
        """Write all rows of `parts` into fresh buffers of `capacity` rows."""
        filled = [part for part in parts if part.arrays]
        for part in filled:
            keys, values = part.arrays
            if self.keys is None:
                self.reallocate(0, capacity, (keys, values))
            self.append(keys, values)

    def append(self, keys: mx.array, values: mx.array) -> None:
        """Write rows that are known to fit."""
        assert self.keys is not None
        assert self.values is not None
        stop = self.end + keys.shape[2]
        self.keys[:, :, self.end : stop] = keys
        self.values[:, :, self.end : stop] = values
        self.end = stop


@dataclass
class FullCache:
    """Every position of one session: keys and values [1, heads, offset, head_dim] in the model's dtype."""

    room: int = 0
    """Positions that are foreseen: up to there nothing is ever moved."""
    _rows: _Rows = field(default_factory=_Rows)

    @property
    def offset(self) -> int:
        """Tokens seen, rolled back ones not counted."""
        return self._rows.end

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers held, for evaluation."""
        return self._rows.arrays

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows [1, heads, L, head_dim] and return all rows, oldest first."""
        rows, needed = self._rows, self._rows.end + keys.shape[2]
        if needed > rows.capacity:
            rows.reallocate(rows.end, grown(rows.capacity, needed, self.room), (keys, values))
        rows.append(keys, values)
        return rows.last(rows.end)

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens.

        Raises:
            CacheError: `n` is negative or more than was seen.
        """
        if not 0 <= n <= self.offset:
            raise CacheError(f"cannot go back {n} tokens of {self.offset}")
        self._rows.end -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of the rows `start..stop`.

        Raises:
            CacheError: they are not all there.
        """
        if not 0 <= start <= stop <= self.offset:
            raise CacheError(f"cannot copy rows {start}..{stop}: {self.offset} were seen")
        return Rows(start, stop, self._rows.copy(start, stop), whole=True)

    def restore(self, parts: Sequence[Rows]) -> None:
        """Hold the rows of `parts`, which lie end to end from 0 on, in buffers of its own.

        Raises:
            CacheError: this cache is not empty, or rows are missing.
        """
        ends = [0, *(part.stop for part in parts)]
        starts = [part.start for part in parts]
        if self.offset or starts != ends[:-1] or not all(part.whole for part in parts):
            raise CacheError(
                f"a cache at {self.offset} cannot resume from rows {list(zip(starts, ends[1:], strict=True))}"
            )
        self._rows.fill(parts, grown(0, ends[-1] + 1, self.room))


@dataclass
class WindowCache:
    """The newest positions of one session, in time order, with room to go back.

    A query sees `window` keys, its own included, so `window - 1` earlier rows are needed. The buffer holds `slack` rows
    more than that: any place up to `slack` tokens before the furthest one reached can be gone back to. A run of free
    rows behind them makes compaction rare.
    """

    window: int
    slack: int = 0
    offset: int = 0
    """Tokens seen, rolled back ones not counted; also the position of the next token."""
    _rows: _Rows = field(default_factory=_Rows)

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers held, for evaluation."""
        return self._rows.arrays

    @property
    def _kept(self) -> int:
        return self.window - 1 + self.slack

    @property
    def _capacity(self) -> int:
        """Rows of the buffer, unless one append brings more."""
        return self._kept + max(64, self.window // 2)

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows [1, heads, L, head_dim]; return the `min(offset, window - 1) + L` rows they can see."""
        rows, length = self._rows, keys.shape[2]
        seen = min(rows.end, self.window - 1)
        if rows.end + length > rows.capacity:
            keep = min(rows.end, self._kept)
            rows.reallocate(keep, max(self._capacity, keep + length), (keys, values))
        rows.append(keys, values)
        self.offset += length
        view = rows.last(seen + length)
        if rows.capacity > self._capacity:
            # A long append needed a long buffer: only its tail is worth keeping.
            rows.reallocate(min(rows.end, self._kept), self._capacity, (keys, values))
        return view

    def peek(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """What `update` would return, without remembering the rows."""
        seen = min(self._rows.end, self.window - 1)
        if not seen:
            return keys, values
        held_keys, held_values = self._rows.last(seen)
        return mx.concatenate([held_keys, keys], axis=2), mx.concatenate([held_values, values], axis=2)

    def skip(self, n: int) -> None:
        """Let `n` positions pass unremembered, and forget what is held: the caller knows that no later query sees it.

        Raises:
            CacheError: `n` is below 1.
        """
        if n < 1:
            raise CacheError(f"cannot skip {n} tokens")
        self.offset += n
        self._rows.end = 0

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens.

        Raises:
            CacheError: `n` is negative, or rows that the window needs then are gone.
        """
        left = self._rows.end - n
        if n < 0 or left < min(self.offset - n, self.window - 1):
            raise CacheError(
                f"cannot go back {n} tokens of {self.offset}: {self._rows.end} rows are held, a window of "
                f"{self.window} needs {self.window - 1} before the next token, and the slack is {self.slack}"
            )
        self._rows.end = left
        self.offset -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of the rows that the token at `stop` can see; where `start` lies is all the same.

        Raises:
            CacheError: `start..stop` is not a part of what was seen, or some of these rows are gone.
        """
        if not 0 <= start <= stop <= self.offset:
            raise CacheError(f"cannot copy rows {start}..{stop}: {self.offset} were seen")
        first, held = max(0, stop - self.window + 1), self.offset - self._rows.end
        if first < held:
            raise CacheError(f"a window of {self.window} sees rows {first}..{stop}, and those before {held} are gone")
        return Rows(first, stop, self._rows.copy(first - held, stop - held), whole=False)

    def restore(self, parts: Sequence[Rows]) -> None:
        """Stand where the one part stood, and go back no further than there.

        Raises:
            CacheError: this cache is not empty, or there is not one part that was cut for such a window.
        """
        if self.offset or len(parts) != 1 or parts[0].whole:
            raise CacheError(f"a window at {self.offset} cannot resume from {len(parts)} parts")
        (part,) = parts
        if part.stop - part.start != min(part.stop, self.window - 1):
            raise CacheError(f"a window of {self.window} cannot resume from rows {part.start}..{part.stop}")
        self._rows.fill(parts, self._capacity)
        self.offset = part.stop
