"""Blocks against single steps: exact where the arithmetic is, and every kind of difference is seen."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models.cache import FullCache
from models.contract import LayerCache, Output, Row
from models.exactness import measure
from models.laguna import Laguna

PROMPTS = [[5, 6, 7], list(range(60, 3, -1))]
"""Inside the window of 16 keys, and past it."""

Spoil = Callable[[int, mx.array], mx.array]
"""Rows of a pass and its logits to other logits."""


class Inexact:
    """A target whose logits depend on how many rows a pass has."""

    def __init__(self, target: Laguna, spoil: Spoil) -> None:
        self.target = target
        self.spoil = spoil

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        return self.target.make_caches(slack, room)

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        output = self.target(ids, rows, taps=taps, logit_rows=logit_rows)
        return replace(output, logits=self.spoil(ids.shape[0], output.logits))


class Leaky(Inexact):
    """A target one layer of which keeps the rows that should go back."""

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        """The cache of the first layer, which is full, with one row kept of every few that go back."""
        first, *others = self.target.make_caches(slack, room)
        assert isinstance(first, FullCache)
        return [LeakyCache(first.room, first.held), *others]


class LeakyCache(FullCache):
    """A cache whose rejected rows stay visible: only the count goes back, and the next rows come after them."""

    def rollback(self, n: int) -> None:
        """Keep one row too many of a rejected tail."""
        super().rollback(n - 1 if 1 < n < 8 else n)


def swapped(narrowest: int) -> Spoil:
    """The two likeliest tokens change places in passes of at least `narrowest` rows."""

    def spoil(rows: int, logits: mx.array) -> mx.array:
        if rows < narrowest:
            return logits
        best = mx.max(logits, axis=-1, keepdims=True)
        second = mx.max(mx.where(logits == best, -mx.inf, logits), axis=-1, keepdims=True)
        return mx.where(logits == best, second, mx.where(logits == second, best, logits))

    return spoil


def test_a_network_in_float32_gives_a_block_what_it_gives_single_steps(target: Laguna) -> None:
    found = measure(target, PROMPTS, (1, 3, 4, 5, 8), tokens=24)
    assert [difference.rows for difference in found] == [1, 3, 4, 5, 8]
    for difference in found:
        assert difference.positions == 24 * len(PROMPTS)
        assert difference.largest == 0.0
        assert difference.flips == ()
        assert difference.closest > 0


def test_a_choice_that_only_wide_blocks_change_is_found_with_its_margin(target: Laguna) -> None:
    narrow, wide = measure(Inexact(target, swapped(4)), PROMPTS, (3, 4), tokens=8)
    assert (narrow.largest, narrow.flips) == (0.0, ())
    assert [(flip.prompt, flip.position) for flip in wide.flips] == [
        (index, len(prompt) + place) for index, prompt in enumerate(PROMPTS) for place in range(8)
    ]
    margins = [flip.margin for flip in wide.flips]
    assert wide.largest == pytest.approx(max(margins))
    assert wide.closest == pytest.approx(min(margins))
    plain = target(mx.array(PROMPTS[0]), [Row(0, 3, target.make_caches(0))]).logits[-1]
    second, top = np.sort(np.array(plain))[-2:]
    assert (wide.flips[0].margin, wide.flips[0].top) == (pytest.approx(top - second, abs=1e-5), pytest.approx(top))


def test_a_difference_that_changes_no_choice_is_measured(target: Laguna) -> None:
    (difference,) = measure(Inexact(target, lambda rows, x: x + 0.25 * (rows > 1)), PROMPTS, (3,), tokens=6)
    assert difference.largest == pytest.approx(0.25, abs=1e-5)
    assert difference.flips == ()


def test_logits_that_are_no_numbers_are_not_passed_over(target: Laguna) -> None:
    (difference,) = measure(Inexact(target, lambda rows, x: x * (mx.nan if rows > 2 else 1)), [[5]], (3,), tokens=4)
    assert math.isnan(difference.largest)


def test_rejected_rows_that_stay_behind_show(target: Laguna) -> None:
    single, block = measure(Leaky(target, lambda rows, x: x), [[5, 6, 7]], (1, 4), tokens=10)
    assert single.largest == 0.0
    assert block.largest > 0.01


def test_progress_ends_at_all_of_it(target: Laguna) -> None:
    told: list[tuple[int, int]] = []
    measure(target, [[1], [2]], (1, 3), tokens=2, watch=lambda *news: told.append(news))
    assert told == [(done, 6) for done in range(7)]
