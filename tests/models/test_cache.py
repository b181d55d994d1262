"""The caches against a plain list of rows: what is handed out, and the exact way back."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.attention import KVCache
from models.cache import CacheError, FullCache, WindowCache
from models.packed_cache import PackedCache

WIDTH = 2


def rows(numbers: list[int]) -> tuple[mx.array, mx.array]:
    """Keys and values [1, 1, L, 2] that say which number they stand for."""
    keys = mx.array(numbers, dtype=mx.float32).reshape(1, 1, -1, 1)
    return mx.repeat(keys, WIDTH, axis=3), -mx.repeat(keys, WIDTH, axis=3)


def numbers(view: tuple[mx.array, mx.array]) -> list[int]:
    keys, values = view
    assert keys.shape == values.shape
    assert mx.array_equal(keys, -values)
    return np.array(keys[0, 0, :, 0]).astype(int).tolist()


def run(cache: KVCache, window: int | None, slack: int, steps: list[tuple[int, int]]) -> None:
    """Append and go back as `steps` say, comparing each view with a list that is simply cut.

    Going further back than `slack` before the furthest token may be refused, and then changes nothing.
    """
    written: list[int] = []
    furthest = 0
    for count, (length, back) in enumerate(steps):
        fresh = [1000 * count + index + 1 for index in range(length)]
        view = numbers(cache.update(*rows(fresh)))
        seen = len(written) if window is None else min(len(written), window - 1)
        assert view == written[len(written) - seen :] + fresh
        written += fresh
        furthest = max(furthest, len(written))
        gone = min(back, len(written))
        try:
            cache.rollback(gone)
        except CacheError:
            assert len(written) - gone < furthest - slack
        else:
            written = written[: len(written) - gone]
        assert cache.offset == len(written)


steps = st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 5, 8, 40]), st.integers(0, 9)), min_size=1, max_size=60)


@settings(deadline=None)
@given(steps)
def test_a_full_cache_holds_what_was_kept(steps: list[tuple[int, int]]) -> None:
    run(FullCache(), None, 10_000, steps)


@settings(max_examples=200, deadline=None)
@given(window=st.integers(1, 20), steps=steps)
def test_a_window_cache_gives_back_up_to_its_slack_at_any_time(window: int, steps: list[tuple[int, int]]) -> None:
    run(WindowCache(window, slack=9), window, 9, steps)


def test_single_steps_after_going_back_past_the_window_see_no_rejected_row() -> None:
    run(WindowCache(8, slack=16), 8, 16, [(100, 0), *[(16, 11), (1, 0), (1, 0), (16, 15)] * 12, *[(1, 0)] * 200])


def test_a_full_cache_grows_past_many_buffers_and_keeps_every_row() -> None:
    run(FullCache(), None, 10_000, [(256, 0), (1, 0), (700, 3), (1, 0), (2000, 9), (1, 1), (1, 0)])


def test_a_full_cache_moves_its_rows_ever_more_rarely() -> None:
    cache, moves = FullCache(), 0
    capacity = 0
    for _ in range(100):
        cache.update(*rows([1] * 100))
        held = cache.arrays[0].shape[2]
        moves += held != capacity
        capacity = held
    assert cache.offset == 10_000
    assert moves <= 36
    assert capacity <= 10_900


@pytest.mark.parametrize("make", [FullCache, lambda room: PackedCache(8, 32, room)])
def test_a_cache_is_made_for_what_is_foreseen_and_grows_beyond_it(make: Callable[[int], KVCache]) -> None:
    cache = make(1000)
    row = mx.zeros((1, 1, 1, 32))
    for length, capacity in ((1, 1024), (1023, 1024), (1, 1280), (3000, 4096)):
        grown = mx.broadcast_to(row, (1, 1, length, 32))
        cache.update(grown, grown)
        assert {array.shape[2] for array in cache.arrays} == {capacity}


def test_a_small_session_holds_a_small_buffer() -> None:
    full, window = FullCache(), WindowCache(16, slack=8)
    for cache in (full, window):
        cache.update(*rows([1, 2, 3]))
    assert full.arrays[0].shape[2] == 256
    assert window.arrays[0].shape[2] == 15 + 8 + 64


def test_an_append_longer_than_the_window_leaves_a_buffer_of_the_usual_size() -> None:
    cache = WindowCache(16, slack=8)
    cache.update(*rows(list(range(1, 501))))
    assert cache.arrays[0].shape[2] == 15 + 8 + 64
    assert numbers(cache.update(*rows([900]))) == [*range(486, 501), 900]


def test_an_empty_cache_holds_nothing() -> None:
    assert FullCache().arrays == WindowCache(4).arrays == ()
    assert FullCache().offset == WindowCache(4).offset == 0


def test_peeking_shows_what_an_update_would_and_remembers_nothing() -> None:
    cache = WindowCache(8)
    assert numbers(cache.peek(*rows([1, 2]))) == [1, 2]
    cache.update(*rows(list(range(1, 21))))
    for _ in range(2):
        assert numbers(cache.peek(*rows([50, 51]))) == [*range(14, 21), 50, 51]
    assert cache.offset == 20
    assert numbers(cache.update(*rows([60]))) == [*range(14, 21), 60]


def test_skipped_positions_count_and_are_not_seen() -> None:
    cache = WindowCache(8)
    cache.update(*rows([1, 2, 3]))
    cache.skip(90)
    assert cache.offset == 93
    assert numbers(cache.update(*rows(list(range(94, 101))))) == [*range(94, 101)]
    assert cache.offset == 100
    with pytest.raises(CacheError, match="cannot skip 0 tokens"):
        cache.skip(0)


@pytest.mark.parametrize("back", [-1, 4])
@pytest.mark.parametrize("make", [FullCache, lambda: WindowCache(8, slack=4)])
def test_a_cache_refuses_to_give_back_what_it_never_saw(make: Callable[[], FullCache | WindowCache], back: int) -> None:
    cache = make()
    cache.update(*rows([1, 2, 3]))
    with pytest.raises(CacheError, match=f"cannot go back {back} tokens of 3"):
        cache.rollback(back)
    assert cache.offset == 3


def test_a_window_cache_refuses_to_give_back_what_it_no_longer_holds() -> None:
    cache = WindowCache(8, slack=4)
    cache.update(*rows(list(range(1, 101))))
    with pytest.raises(CacheError, match="cannot go back 5 tokens of 100: 11 rows are held"):
        cache.rollback(5)
    with pytest.raises(CacheError, match="cannot go back -1 tokens"):
        cache.rollback(-1)
    assert cache.offset == 100
    cache.rollback(4)
    assert numbers(cache.update(*rows([500]))) == [*range(90, 97), 500]


def test_a_window_cache_may_go_back_to_the_beginning_while_it_still_holds_it() -> None:
    cache = WindowCache(8)
    cache.update(*rows([1, 2, 3]))
    cache.rollback(3)
    assert cache.offset == 0
    assert numbers(cache.update(*rows([7]))) == [7]
