"""Caches that live side by side: each holds what it would hold alone, whoever comes and leaves."""

import gc
import math
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cache import SETTLED, CacheError, FullCache, WindowCache
from models.joint import Shared, exchange, joinable, tidied, visits
from models.slack import SHARED_ROWS, SPARE_PART

HEADS, WIDTH, SLACK = 2, 3, 8


def rows(numbers: list[int]) -> tuple[mx.array, mx.array]:
    """Keys and values [1, heads, L, head_dim] that say which number they stand for."""
    keys = mx.broadcast_to(mx.array(numbers, dtype=mx.float32).reshape(1, 1, -1, 1), (1, HEADS, len(numbers), WIDTH))
    return keys, -keys


@dataclass
class Told:
    """A cache, and what it should hold."""

    cache: Shared
    window: int | None
    numbers: list[int] = field(default_factory=list)
    furthest: int = 0

    def sees(self, length: int) -> list[int]:
        """What the newest `length` tokens see."""
        seen = len(self.numbers) if self.window is None else min(len(self.numbers), self.window - 1 + length)
        return self.numbers[len(self.numbers) - seen :]

    def append(self, fresh: list[int]) -> None:
        keys, values = self.cache.update(*rows(fresh))
        self.numbers += fresh
        self.furthest = max(self.furthest, len(self.numbers))
        assert mx.array_equal(keys, -values)
        assert np.array(keys[0, 1, :, 2]).astype(int).tolist() == self.sees(len(fresh))

    def back(self, count: int) -> None:
        """Go back; what the slack promises is given, wherever it lives."""
        left = len(self.numbers) - count
        try:
            self.cache.rollback(count)
        except CacheError:
            assert left < (0 if self.window is None else max(0, self.furthest - SLACK))
        else:
            self.numbers = self.numbers[:left]


def together(told: list[Told], number: int) -> None:
    """One more token for each, in one go; everybody sees its own."""
    fresh = [number + place for place in range(len(told))]
    keys = mx.concatenate([rows([one])[0] for one in fresh])
    held, values, visit = exchange([one.cache for one in told], keys, -keys, visits())
    assert mx.array_equal(held, -values)
    every = visit.from_slots(held), visit.from_slots(visit.seen)
    for place, (one, token) in enumerate(zip(told, fresh, strict=True)):
        one.numbers.append(token)
        one.furthest = max(one.furthest, len(one.numbers))
        seen = np.array(every[0][place, 1, :, 2])[np.array(every[1][place, 0, 0])]
        assert seen.astype(int).tolist() == one.sees(1)


def settled(window: int | None, room: int = 0) -> Told:
    """One that has had enough single tokens to move in with others."""
    told = Told(FullCache(room) if window is None else WindowCache(window, SLACK), window)
    told.append([1, 2, 3])
    for number in range(SETTLED):
        told.append([4 + number])
    return told


def test_who_had_single_tokens_for_a_while_takes_the_next_beside_others() -> None:
    first, second = settled(None), settled(None)
    fresh = FullCache()
    fresh.update(*rows([1, 2]))
    caches = [first.cache, second.cache, fresh]
    assert list(joinable([0, 1, 2], caches)) == [0, 1]
    assert joinable([0, 2], caches) == {}
    assert joinable([1], caches) == {}


def test_a_cache_made_for_more_than_a_slot_lives_alone() -> None:
    told = settled(None)
    assert told.cache.ready()
    long = Told(FullCache(room=SHARED_ROWS + 1), None)
    for number in range(2 * SETTLED):
        long.append([number])
    assert not long.cache.ready()


@pytest.mark.parametrize("window", [None, 5, 70])
def test_they_grow_come_back_and_leave_without_a_trace(window: int | None) -> None:
    first, second, third = (settled(window) for _ in range(3))
    for number in range(300):
        together([second, first] if number % 3 else [first, third, second], 1000 + 10 * number)
    first.append([7, 8, 9])
    assert not first.cache.held.shared
    together([second, third], 5000)
    second.back(2)
    together([third, second], 6000)
    for number in range(SETTLED):
        first.append([number])
    together([first, third, second], 7000)
    assert len({id(one.cache.held.home) for one in (first, second, third)}) == 1


def test_a_slot_that_nobody_holds_goes_to_the_next_or_is_given_back() -> None:
    told = [settled(None) for _ in range(6)]
    together(told, 100)
    home = told[0].cache.held.home
    assert home.count == 6
    del told[2]
    gc.collect()
    together(told, 200)
    assert home.count == 6, "one may wait for the next"
    told.append(settled(None))
    together(told, 300)
    assert (home.count, told[-1].cache.held.slot) == (6, 2)
    del told[:3]
    gc.collect()
    together(told, 400)
    assert home.count == 3
    told[0].append([1])
    del told[1:]
    gc.collect()
    told[0].append([2])
    assert home.count == 1


def test_who_outgrows_the_slots_moves_out() -> None:
    first, second = settled(None), settled(None)
    while first.cache.ready():
        together([first, second], 10 * len(first.numbers))
    assert first.cache.held.home.capacity == SHARED_ROWS
    first.append([5])
    second.append([6])
    assert not first.cache.held.shared
    assert not second.cache.held.shared


def test_what_was_copied_of_one_is_its_own() -> None:
    first, second = settled(None), settled(None)
    together([first, second], 100)
    kept = second.cache.snapshot(0, second.cache.offset)
    together([first, second], 200)
    assert np.array(kept.arrays[0][0, 0, :, 0]).astype(int).tolist() == second.numbers[:-1]


def test_who_leaves_a_slot_that_was_long_for_others_takes_what_is_his() -> None:
    short, long = settled(None, room=300), settled(None, room=1000)
    together([long, short], 100)
    assert short.cache.held.capacity == 1024
    short.append([7, 8])
    assert short.cache.held.capacity == 512
    assert short.cache.held.home.count == 1


def test_slots_that_were_left_in_a_pass_are_given_back_in_it() -> None:
    told = [settled(6) for _ in range(8)]
    together(told, 100)
    home = told[0].cache.held.home
    for one in told[2:]:
        one.append([1, 2])
    tidied(one.cache for one in told)
    assert home.count == 2


def test_numbers_that_are_none_stay_with_the_session_that_has_them() -> None:
    broken, sound, away, *others = (settled(None) for _ in range(7))
    together([broken, sound, away, *others], 100)
    keys = mx.concatenate([mx.full((1, HEADS, 1, WIDTH), math.nan), rows([7])[0]])
    # The slot of one that is not in the pass is written to as well, and it may then go back behind that.
    exchange([broken.cache, sound.cache], keys, keys, visits())
    away.back(2)
    home, slot = away.cache.held.home, broken.cache.held.slot
    assert mx.isnan(home.keys[slot]).any()
    assert mx.isfinite(home.keys[away.cache.held.slot]).all()
    del broken
    gc.collect()
    heir = settled(None)
    together([away, heir], 300)
    assert (heir.cache.held.home, heir.cache.held.slot) == (home, slot)
    assert mx.isfinite(home.keys).all()
    assert mx.isfinite(home.values).all()


@pytest.mark.parametrize("window", [None, 512])
def test_many_that_move_in_at_once_are_copied_once(window: int | None) -> None:
    told = [settled(window, room=900) for _ in range(8)]
    mx.eval([one.cache.arrays for one in told])
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    together(told, 100)
    home = told[0].cache.held.home
    # Once what they bring, and once where it goes.
    assert mx.get_peak_memory() - before < 2.5 * (home.keys.nbytes + home.values.nbytes)


def test_windows_that_are_full_are_moved_together_and_rarely() -> None:
    told = [settled(64) for _ in range(6)]
    for place, one in enumerate(told):
        for number in range(7 * place):
            one.append([number])
    together(told, 100)
    home, moved = told[0].cache.held.home, 0
    for number in range(300):
        ends = [one.cache.held.end for one in told]
        together(told, 1000 + 10 * number)
        moved += any(one.cache.held.end <= end for one, end in zip(told, ends, strict=True))
    assert told[0].cache.held.home is home
    assert 1 <= moved <= 300 // 64 + 1


actions = st.lists(
    st.one_of(
        st.tuples(st.just("together"), st.sets(st.integers(0, 3), min_size=2)),
        st.tuples(st.just("append"), st.integers(0, 3), st.sampled_from([1, 1, 1, 1, 2, 9, 40])),
        st.tuples(st.just("back"), st.integers(0, 3), st.integers(1, 6)),
        st.tuples(st.just("over"), st.integers(0, 3)),
    ),
    max_size=50,
)


@settings(deadline=None, max_examples=60)
@given(actions, st.sampled_from([None, 3, 6, 100]))
def test_nobody_sees_what_is_anothers(steps: list[tuple], window: int | None) -> None:
    told = [settled(window) for _ in range(4)]
    for number, step in enumerate(steps, 1):
        match step:
            case ("together", chosen):
                found = joinable(sorted(chosen), [one.cache for one in told])
                if found:
                    together([told[place] for place in found], 1000 * number)
            case ("append", place, length):
                told[place].append([1000 * number + index for index in range(length)])
            case ("back", place, count):
                told[place].back(count)
            case ("over", place):
                told[place] = settled(window)
    homes = {id(one.cache.held.home): one.cache.held.home for one in told}
    for home in (home for home in homes.values() if home.tenants):
        home.tidy()
        live = sum(holder is not None for holder in home.holders)
        assert home.count <= live + live // SPARE_PART
