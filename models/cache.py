"""What an attention layer remembers of one session, and the exact way back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import mlx.core as mx

from models.contract import Rows
from models.slack import SHARED_ROWS
from models.slots import Held

_STEP = 256
"""Rows by which a full cache grows at least; beyond 4096 it grows by a sixteenth, so that copying stays linear."""

SETTLED = 1
"""Single tokens in a row after which a session's next ones are taken beside others'."""


class CacheError(RuntimeError):
    """A cache was asked for what it no longer holds, or for what it is not."""


def grown(capacity: int, needed: int, room: int) -> int:
    """Rows of the buffer that follows one of `capacity` rows when `needed` do not fit; `room` are foreseen."""
    wanted = room if needed <= room else max(needed, capacity + max(_STEP, capacity // 16))
    return -(-wanted // _STEP) * _STEP


@dataclass
class FullCache:
    """Every position of one session: keys and values [1, heads, offset, head_dim] in the model's dtype."""

    room: int = 0
    """Positions that are foreseen: up to there buffers of its own never grow."""
    held: Held = field(default_factory=Held)

    @property
    def offset(self) -> int:
        """Tokens seen, rolled back ones not counted."""
        return self.held.end

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers held, for evaluation."""
        return self.held.arrays

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows [1, heads, L, head_dim] and return all rows, oldest first."""
        rows, length, needed = self.held, keys.shape[2], self.held.end + keys.shape[2]
        if length > rows.room or (rows.shared and length > 1):
            # A slot is as long as others need it: who leaves it grows from what is his.
            rows.move(rows.end, grown(rows.end if rows.shared else rows.capacity, needed, self.room), (keys, values))
        rows.append(keys, values)
        return rows.last(rows.end)

    def ready(self) -> bool:
        """Whether it may take its next token beside others."""
        held = self.held
        fits = held.end + 2 <= SHARED_ROWS and (held.shared or held.capacity <= SHARED_ROWS)
        return fits and held.steady >= SETTLED

    def prepare(self) -> int:
        """Get ready for one token; return how many rows its slot must have for that."""
        return self.held.end + 2

    @property
    def slot_rows(self) -> int:
        """Rows of a slot that it could live in for a while."""
        return max(-(-(self.held.end + 2) // _STEP) * _STEP, self.held.capacity)

    def advance(self) -> int:
        """Count one token, which goes to the row `held.end`; return the first row that it sees."""
        self.held.end += 1
        return 0

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens.

        Raises:
            CacheError: `n` is negative or more than was seen.
        """
        if not 0 <= n <= self.offset:
            raise CacheError(f"cannot go back {n} tokens of {self.offset}")
        self.held.end -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of the rows `start..stop`.

        Raises:
            CacheError: they are not all there.
        """
        if not 0 <= start <= stop <= self.offset:
            raise CacheError(f"cannot copy rows {start}..{stop}: {self.offset} were seen")
        return Rows(start, stop, self.held.copy(start, stop), whole=True)

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
        self.held.fill(parts, grown(0, ends[-1] + 1, self.room))


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
    held: Held = field(default_factory=Held)

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers held, for evaluation."""
        return self.held.arrays

    @property
    def _kept(self) -> int:
        return self.window - 1 + self.slack

    @cached_property
    def _capacity(self) -> int:
        """Rows of the buffer, unless one append brings more."""
        return self._kept + max(64, self.window // 2)

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows [1, heads, L, head_dim]; return the `min(offset, window - 1) + L` rows they can see."""
        rows, length = self.held, keys.shape[2]
        seen = min(rows.end, self.window - 1)
        if length > rows.room or (rows.shared and length > 1):
            keep = min(rows.end, self._kept)
            rows.move(keep, max(self._capacity, keep + length), (keys, values))
        rows.append(keys, values)
        self.offset += length
        view = rows.last(seen + length)
        if rows.capacity > self._capacity and not rows.shared:
            # A long append needed a long buffer: only its tail is worth keeping.
            rows.move(min(rows.end, self._kept), self._capacity, (keys, values))
        return view

    def ready(self) -> bool:
        """Whether it may take its next token beside others."""
        return self.held.steady >= SETTLED

    def prepare(self) -> int:
        """Get ready for one token; return how many rows its slot must have for that."""
        if self.held.end >= self._capacity and self.held.shared:
            # Those beside it are of the same layer, and keep as many.
            self.held.home.compact(self._kept)
        elif self.held.end >= self._capacity:
            self.held.move(self._kept, self._capacity, self.held.arrays)
        return self.held.end + 2

    @property
    def slot_rows(self) -> int:
        """Rows of a slot that it could live in for good."""
        return self._capacity + 1

    def advance(self) -> int:
        """Count one token, which goes to the row `held.end`; return the first row that it sees."""
        self.held.end += 1
        self.offset += 1
        return self.held.end - min(self.held.end, self.window)

    def peek(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """What `update` would return, without remembering the rows."""
        seen = min(self.held.end, self.window - 1)
        if not seen:
            return keys, values
        held_keys, held_values = self.held.last(seen)
        return mx.concatenate([held_keys, keys], axis=2), mx.concatenate([held_values, values], axis=2)

    def skip(self, n: int) -> None:
        """Let `n` positions pass unremembered, and forget what is held: the caller knows that no later query sees it.

        Raises:
            CacheError: `n` is below 1.
        """
        if n < 1:
            raise CacheError(f"cannot skip {n} tokens")
        self.offset += n
        self.held.end = 0

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens.

        Raises:
            CacheError: `n` is negative or more than was seen, or rows that the window needs then are gone.
        """
        left = self.held.end - n
        if not 0 <= n <= self.offset or left < min(self.offset - n, self.window - 1):
            raise CacheError(
                f"cannot go back {n} tokens of {self.offset}: {self.held.end} rows are held, a window of "
                f"{self.window} needs {self.window - 1} before the next token, and the slack is {self.slack}"
            )
        self.held.end = left
        self.offset -= n

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of the rows that the token at `stop` can see; where `start` lies is all the same.

        Raises:
            CacheError: `start..stop` is not a part of what was seen, or some of these rows are gone.
        """
        if not 0 <= start <= stop <= self.offset:
            raise CacheError(f"cannot copy rows {start}..{stop}: {self.offset} were seen")
        first, held = max(0, stop - self.window + 1), self.offset - self.held.end
        if first < held:
            raise CacheError(f"a window of {self.window} sees rows {first}..{stop}, and those before {held} are gone")
        return Rows(first, stop, self.held.copy(first - held, stop - held), whole=False)

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
        self.held.fill(parts, self._capacity)
        self.offset = part.stop
