"""The prefix store beside a naive twin that keeps a whole copy for every mark."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from models.cache import CacheError, FullCache, WindowCache
from models.contract import LayerCache
from models.decode.prefix import PrefixStore, PrefixStoreError

WINDOW, CONTEXT = 5, 4
LARGE = 1 << 30


def fresh() -> list[LayerCache]:
    return [FullCache(), WindowCache(WINDOW, slack=2), FullCache()]


def fresh_context() -> list[LayerCache]:
    return [WindowCache(CONTEXT, slack=1)]


def read(caches: Sequence[LayerCache], tokens: Sequence[int], since: int = 0) -> None:
    """Append to each cache rows that tell the whole history of each token, and the layer."""
    for layer, cache in enumerate(caches):
        assert isinstance(cache, FullCache | WindowCache)
        for at in range(since, len(tokens)):
            told = float(hash(tuple(tokens[: at + 1])) % 9973 + layer / 8)
            cache.update(mx.full((1, 1, 1, 2), told), mx.full((1, 1, 1, 2), -told))


def seen(caches: Sequence[LayerCache]) -> list[list[float]]:
    """All that the next token would see of each cache."""
    shown = []
    for cache in caches:
        (row,) = [cache.snapshot(0, cache.offset)]
        shown.append([] if not row.arrays else np.asarray(row.arrays[0][0, 0, :, 0]).tolist())
    return shown


def cold(tokens: Sequence[int], *, drafting: bool) -> list[list[float]]:
    caches = [*fresh(), *(fresh_context() if drafting else [])]
    read(caches[:3], tokens)
    read(caches[3:], tokens)
    return seen(caches)


def kept(store: PrefixStore, tokens: Sequence[int], *, drafting: bool = True, beyond: Sequence[int] = ()) -> None:
    """Read all of `tokens`, and more, and leave a mark after them, resuming where that is possible."""
    caches, context = fresh(), fresh_context() if drafting else []
    found = store.find(tokens, drafting=drafting)
    if found.mark is not None:
        store.restore(found.mark, caches, context)
    read(caches, (*tokens, *beyond), found.offset)
    read(context, (*tokens, *beyond), found.offset)
    store.keep(tokens, caches, context)


class Twin(RuleBasedStateMachine):
    """Marks are kept and resumed in any order; where the twin resumes the store must, unless it dropped the mark."""

    @initialize(budget=st.sampled_from([LARGE, 2500, 900]))
    def begin(self, budget: int) -> None:
        self.store = PrefixStore(budget)
        self.marks: dict[tuple[int, ...], bool] = {}
        self.told: list[tuple[int, ...]] = [()]

    @rule(data=st.data(), more=st.lists(st.integers(0, 2), min_size=1, max_size=14), drafting=st.booleans())
    def go_on(self, data: st.DataObject, more: list[int], drafting: bool) -> None:
        known = data.draw(st.sampled_from(self.told))
        tokens = (*known[: data.draw(st.integers(0, len(known)))], *more)
        kept(self.store, tokens, drafting=drafting, beyond=more[: data.draw(st.integers(0, 1))])
        self.told.append(tokens)
        self.marks[tokens] = self.marks.get(tokens, False) or drafting

    @rule(data=st.data(), more=st.lists(st.integers(0, 2), max_size=4), drafting=st.booleans())
    def resume(self, data: st.DataObject, more: list[int], drafting: bool) -> None:
        tokens = (*data.draw(st.sampled_from(self.told)), *more)
        found = self.store.find(tokens, drafting=drafting)
        usable = [m for m, had in self.marks.items() if m == tokens[: len(m)] and (had or not drafting)]
        longest = max((len(mark) for mark in usable if len(mark) < len(tokens)), default=0)
        assert found.offset == longest if self.store.budget == LARGE else found.offset <= longest
        if found.mark is None:
            return
        caches, context = fresh(), fresh_context() if drafting else []
        self.store.restore(found.mark, caches, context)
        assert seen([*caches, *context]) == cold(tokens[: found.offset], drafting=drafting)

    @rule(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=20))
    def part(self, tokens: list[int]) -> None:
        found = self.store.find(tokens, drafting=False)
        if self.store.budget != LARGE:
            return
        common = [
            next((i for i, (a, b) in enumerate(zip(told, tokens, strict=False)) if a != b), None) for told in self.told
        ]
        agreed = max(
            min(len(told), len(tokens)) if at is None else at for at, told in zip(common, self.told, strict=True)
        )
        assert found.agreed == agreed
        follows = any(len(told) > agreed and list(told[:agreed]) == tokens[:agreed] for told in self.told)
        assert found.parted == (agreed < len(tokens) and follows)

    @precondition(lambda self: len(self.told) > 4)
    @rule()
    def forget(self) -> None:
        self.store.clear()
        self.marks.clear()
        self.told = [()]

    @invariant()
    def books_add_up(self) -> None:
        self.store.check()


TestTwin = Twin.TestCase
TestTwin.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def test_shared_beginnings_are_held_once() -> None:
    store = PrefixStore(LARGE)
    beginning = list(range(1000))
    kept(store, beginning)
    alone = store.nbytes
    for branch in range(8):
        kept(store, [*beginning, branch, 5])
    assert store.marks == 9
    assert store.nbytes < 1.2 * alone


def test_an_edge_that_two_prompts_part_in_is_cut_and_held_once() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(1000))
    alone = store.nbytes
    kept(store, [*range(900), 5])
    assert store.nbytes < 1.1 * alone
    store.check()
    assert store.find([*range(900), 6], drafting=True).mark is None, "a window resumes only where it stood"
    assert store.find(range(2000), drafting=True).offset == 1000


def test_what_was_used_longest_ago_goes_first() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(100))
    store.budget = 3 * store.nbytes
    kept(store, range(200, 300))
    kept(store, range(400, 500))
    found = store.find([*range(100), 1], drafting=True)
    assert found.mark is not None
    store.restore(found.mark, fresh(), fresh_context())
    kept(store, range(600, 700))
    assert [store.find([*range(at, at + 100), 1], drafting=True).offset for at in (0, 200, 400, 600)] == [
        100,
        0,
        100,
        100,
    ]


def test_the_first_mark_of_a_timeline_outlives_the_later_ones() -> None:
    store = PrefixStore(LARGE)
    system = list(range(50))
    for turn in range(1, 30):
        kept(store, [*system, *([7] * turn)] if turn > 1 else system)
        store.budget = min(store.budget, 2 * store.nbytes)
    assert 1 < store.marks < 29
    assert store.find([*system, 9], drafting=True).offset == 50


def test_an_entry_larger_than_the_budget_is_not_kept_and_drops_nothing() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(50))
    store.budget = 2 * store.nbytes
    kept(store, range(100, 500))
    assert store.marks == 1
    assert store.find(range(51), drafting=True).offset == 50


def test_a_mark_without_a_context_serves_no_session_that_drafts_until_one_has_passed_it() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(50), drafting=False)
    assert store.find(range(60), drafting=False).offset == 50
    assert store.find(range(60), drafting=True).mark is None
    kept(store, range(50), drafting=True)
    assert store.find(range(60), drafting=True).offset == 50
    assert store.marks == 1


def test_at_least_one_token_is_read_again() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(10))
    kept(store, range(20))
    assert store.find(range(20), drafting=True).offset == 10


def test_a_mark_where_the_caches_do_not_stand_yet_or_stood_too_long_ago_is_refused() -> None:
    store = PrefixStore(LARGE)
    caches = fresh()
    read(caches, range(80))
    with pytest.raises(CacheError, match=r"cannot copy rows 0\.\.81: 80 were seen"):
        store.keep(range(81), caches, [])
    with pytest.raises(CacheError, match=r"sees rows 56\.\.60, and those before 64 are gone"):
        store.keep(range(60), caches, [])
    with pytest.raises(PrefixStoreError, match="a mark needs a token before it"):
        store.keep([], caches, [])
    assert store.marks == 0
    store.check()


def test_caches_that_hold_something_resume_nowhere() -> None:
    store = PrefixStore(LARGE)
    kept(store, range(10))
    mark = store.find(range(20), drafting=True).mark
    assert mark is not None
    caches = fresh()
    read(caches, [1])
    with pytest.raises(CacheError, match="a cache at 1 cannot resume"):
        store.restore(mark, caches, [])


def test_snapshots_keep_no_live_buffer_alive() -> None:
    store = PrefixStore(LARGE)
    mx.synchronize()
    before = mx.get_active_memory()
    caches: list[LayerCache] = [FullCache()]
    for cache in caches:
        assert isinstance(cache, FullCache)
        cache.update(mx.zeros((1, 1, 50_000, 64)), mx.zeros((1, 1, 50_000, 64)))
        cache.rollback(49_900)
        store.keep(range(100), [cache], [])
    del caches, cache
    assert mx.get_active_memory() - before < 200_000
    store.clear()
    assert mx.get_active_memory() <= before


def test_marks_are_asked_for_where_wanted_at_rungs_and_where_a_near_miss_parted() -> None:
    store = PrefixStore(LARGE, rung=100)
    kept(store, range(250))
    found = store.find([*range(210), *[7] * 190], drafting=True)
    assert (found.offset, found.agreed, found.parted) == (0, 210, True)
    assert store.places((30, 390), found, 400) == (30, 100, 200, 210, 300, 390)
    found = store.find([*range(250), *[7] * 200], drafting=True)
    assert (found.offset, found.parted) == (250, False)
    assert store.places((30, 390), found, 400) == (300, 390)
