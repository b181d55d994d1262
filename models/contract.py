"""What the decoding loop knows of the networks: flat rows in, logits and taps out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx


def copied(array: mx.array, start: int, stop: int) -> mx.array:
    """The rows `start..stop` of the next-to-last axis in a buffer of their own, exactly.

    A slice, even one made contiguous, may share the buffer it was cut from, and then keeps all of it alive.
    """
    return mx.take(array, mx.arange(start, stop), axis=-2)


@dataclass(frozen=True)
class Rows:
    """What one layer remembers of the positions `start..stop`, in buffers that no cache writes to."""

    start: int
    stop: int
    arrays: tuple[mx.array, ...]
    """Each with its positions on the next-to-last axis."""
    whole: bool
    """Every position counts for good, so parts that lie end to end from 0 on resume wherever one ends. Otherwise these
    rows alone resume, and at `stop` only."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.arrays)

    def cut(self, start: int, stop: int) -> "Rows":
        """A copy of the part `start..stop` of whole rows."""
        assert self.whole
        arrays = tuple(copied(array, start - self.start, stop - self.start) for array in self.arrays)
        return Rows(start, stop, arrays, whole=True)


class LayerCache(Protocol):
    """What one layer remembers of one session."""

    @property
    def offset(self) -> int:
        """Tokens seen so far, rolled back ones not counted."""
        ...

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """What is held, for evaluation: a context that stays lazy keeps every pass that fed it alive."""
        ...

    def rollback(self, n: int) -> None:
        """Forget the newest `n` tokens exactly.

        Raises:
            CacheError: the cache no longer holds what that needs.
        """
        ...

    def snapshot(self, start: int, stop: int) -> Rows:
        """Copies, not yet evaluated, of what resumes this cache at `stop`, by somebody who has rows `0..start`.

        Raises:
            CacheError: `start..stop` is not a part of what was seen, or too little of it is still held.
        """
        ...

    def restore(self, parts: Sequence[Rows]) -> None:
        """Stand where the last of `parts` stood: whole rows that lie end to end from 0 on, or one part that is not.

        Raises:
            CacheError: this cache is not empty, or the parts are not such.
        """
        ...


@dataclass(frozen=True)
class Row:
    """The tokens `start..stop` of a flat batch belong to one session, which owns these caches (one per layer)."""

    start: int
    stop: int
    caches: Sequence[LayerCache]


@dataclass(frozen=True)
class Output:
    """One target pass over T flat tokens."""

    logits: mx.array
    """[R, vocabulary]: the rows asked for, in the order asked for."""
    taps: tuple[mx.array, ...]
    """One [T, hidden] for each tapped layer: the residual stream after that layer, before the final norm."""


class Target(Protocol):
    """The model whose choices are the text."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        ...

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        """Empty caches, one per layer: any place up to `slack` tokens before the furthest one can be gone back to.

        `room` tokens are foreseen: buffers are made for so many at once, and grow where more come.
        """
        ...

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        """Run `ids` [T] (int32); `rows` cover 0..T in order. `logit_rows` [R] picks rows for the head (None: all)."""
        ...


class Speculator(Protocol):
    """The block drafter. Its context holds committed tokens only, and goes back by `NEAR` of them at most."""

    @property
    def block_size(self) -> int:
        """Rows of the widest block, the anchor's included."""
        ...

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        """The target layers whose outputs it reads."""
        ...

    def make_context(self) -> list[LayerCache]:
        """An empty context for one session, one cache per draft layer."""
        ...

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        """Tapped states, one [T, hidden] per tapped layer, to context rows [T, hidden]."""
        ...

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        """Append the context rows `fused` [T, hidden] of committed tokens to each row's context."""
        ...

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        """One pass over all blocks: an anchor and stop - start - 1 masks each; contexts are read, not changed.

        `anchors` [B] int32, one id per row of `rows`. Returns logits [sum of (stop - start - 1), vocabulary]:
        for each block in turn, the distributions of the tokens that follow the anchor.
        """
        ...
