"""Same seed, same text, cold or resumed: the real networks on a small random checkpoint, past the window."""

from dataclasses import replace

import mlx.core as mx
import pytest

from models.contract import Row
from models.decode.batch import Batch
from models.decode.costs import Costs
from models.decode.launch import LAZY_ROWS
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Sampling, Session, Speculation
from models.decode.width import Table
from models.slack import NEAR
from tests.decode.random_pair import LARGE, PROMPT, SAMPLINGS, Pair, active_memory, asked
from tests.decode.scripted import run_all, text


def write(pair: Pair, store: PrefixStore | None, request: Request) -> tuple[Session, list[int]]:
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    session = batch.add(request)
    said = text(run_all(batch)[session])
    if store is not None:
        store.check()
    return session, said


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("speculation", ["always", "auto", "off"])
def test_the_next_turn_resumes_where_the_answer_ended_and_reads_as_if_it_were_cold(
    pair: Pair, sampling: Sampling, speculation: Speculation
) -> None:
    store = PrefixStore(LARGE)
    prompt = PROMPT
    for turn in range(3):
        request = asked(prompt, sampling, speculation=speculation)
        session, said = write(pair, store, request)
        again, wanted = write(pair, None, request)
        assert said == wanted
        assert session.stats.cached_tokens == (0 if turn == 0 else len(prompt) - 6)
        if speculation == "always" and turn == 0:
            assert session.stats.accepted_by_depth == again.stats.accepted_by_depth
        prompt = (*prompt, *said, *[7 + turn] * 5)


def test_drafts_of_a_resumed_session_are_those_of_a_cold_one(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    request = asked(PROMPT, SAMPLINGS[1], marks=[140], max_tokens=60)
    cold, wanted = write(pair, store, request)
    warm, said = write(pair, store, request)
    assert said == wanted
    assert warm.stats.cached_tokens == 140
    assert warm.stats.accepted_by_depth == cold.stats.accepted_by_depth
    assert warm.stats.drafted == cold.stats.drafted > 0


@pytest.mark.parametrize("mark", [1, 15, 16, 17, 100, 149])
def test_logits_after_a_restored_mark_are_bit_for_bit_those_of_the_session_that_left_it(pair: Pair, mark: int) -> None:
    ids, store = mx.array(PROMPT), PrefixStore(LARGE)
    first = pair.target.make_caches(16)
    pair.target(ids[:mark], [Row(0, mark, first)])
    store.keep(PROMPT[:mark], first, [])
    resumed = pair.target.make_caches(16)
    found = store.find(PROMPT, drafting=False).mark
    assert found is not None
    store.restore(found, resumed, [])
    for caches in (first, resumed):
        assert {cache.offset for cache in caches} == {mark}
    rest = ids[mark:]
    wanted = pair.target(rest, [Row(0, rest.size, first)]).logits
    got = pair.target(rest, [Row(0, rest.size, resumed)]).logits
    assert mx.array_equal(got, wanted)
    whole = pair.target(ids, [Row(0, ids.size, pair.target.make_caches(16))]).logits
    assert mx.allclose(got, whole[mark:], atol=1e-5)


def test_an_edit_resumes_at_the_message_before_it_and_leaves_a_mark_where_it_parted(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    write(pair, store, asked(PROMPT, marks=[20, 60]))
    edited = (*PROMPT[:130], 5, *PROMPT[131:])
    session, said = write(pair, store, asked(edited, marks=[20, 60]))
    assert session.stats.cached_tokens == 60
    assert session.stats.parted_at == 130
    assert said == write(pair, None, asked(edited))[1]
    again, _ = write(pair, store, asked((*PROMPT[:130], 6, 7)))
    assert again.stats.cached_tokens == 130


def test_of_several_that_begin_alike_one_reads_the_beginning_for_all(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    requests = [asked((*PROMPT[:120], *[branch] * 9), SAMPLINGS[1], marks=[120]) for branch in range(3, 7)]
    requests.append(asked([5] * 30, marks=[20]))
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert [session.stats.cached_tokens for session in sessions] == [0, 120, 120, 120, 0]
    for session, request in zip(sessions, requests, strict=True):
        assert text(got[session]) == write(pair, None, request)[1]


def test_nobody_waits_for_one_that_was_cancelled_or_leaves_no_context(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    first = batch.add(asked((*PROMPT[:120], 5), marks=[120]))
    second = batch.add(asked((*PROMPT[:120], 6), marks=[120]))
    batch.step()
    batch.cancel(first)
    assert text(run_all(batch)[second]) == write(pair, None, second.request)[1]
    store.clear()
    plain = batch.add(asked((*PROMPT[:120], 5), speculation="off", marks=[120]))
    drafting = batch.add(asked((*PROMPT[:120], 6), marks=[120]))
    batch.step()
    assert drafting.fed > 0
    run_all(batch)
    assert [plain.stats.cached_tokens, drafting.stats.cached_tokens] == [0, 0]


def test_forks_share_their_beginning_and_read_as_if_they_were_cold(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    write(pair, store, asked(PROMPT, marks=[100]))
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    forks = [asked((*PROMPT[:100], *[branch] * 9), SAMPLINGS[1]) for branch in range(3, 7)]
    sessions = [batch.add(fork) for fork in forks]
    got = run_all(batch)
    for session, fork in zip(sessions, forks, strict=True):
        assert session.stats.cached_tokens == 100
        assert text(got[session]) == write(pair, None, fork)[1]


@pytest.mark.parametrize("steps", range(1, 9))
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_what_a_cancelled_session_has_read_is_kept(pair: Pair, steps: int, speculation: Speculation) -> None:
    store = PrefixStore(LARGE)
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    session = batch.add(asked(PROMPT, speculation=speculation))
    for _ in range(steps):
        batch.step()
    batch.cancel(session)
    store.check()
    resumed, said = write(pair, store, asked(PROMPT, speculation=speculation))
    assert resumed.stats.cached_tokens >= min(32 * steps, 128) or len(session.emitted) > 0
    assert said == write(pair, None, asked(PROMPT))[1]
    onwards = (*PROMPT, *said, 9)
    assert write(pair, store, asked(onwards))[1] == write(pair, None, asked(onwards))[1]


@pytest.mark.parametrize("max_tokens", [1, 40])
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_a_mark_near_the_end_of_a_prompt_costs_no_pass_of_its_own(
    pair: Pair, speculation: Speculation, max_tokens: int
) -> None:
    store, near = PrefixStore(LARGE), len(PROMPT) - NEAR + 1
    batch = Batch(pair.target, pair.speculator, prefix=store)
    marks = [100, near - 1, near, len(PROMPT) - 2]
    session = batch.add(asked(PROMPT, speculation=speculation, marks=marks, max_tokens=max_tokens))
    rounds = 0
    while not session.emitted:
        batch.step()
        rounds += 1
    # Chunks end at 100 and before the nearest three, and the third round draws.
    assert rounds == 3
    if session.finish is None:
        # The first id does not wait for the marks that its round came by.
        assert store.marks == 2
        batch.step()
        assert store.marks == 4
    run_all(batch)
    for mark in marks[1:]:
        other = asked((*PROMPT[:mark], 7, 8, 9), speculation=speculation)
        resumed, said = write(pair, store, other)
        assert resumed.stats.cached_tokens == mark
        assert said == write(pair, None, other)[1]


def test_a_failed_session_starts_over_without_the_store(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    write(pair, store, asked(PROMPT, marks=[100]))
    batch = Batch(pair.target, pair.speculator, prefix=store)
    session = batch.add(asked(PROMPT))
    session.failures = 1
    assert text(run_all(batch)[session]) == write(pair, None, asked(PROMPT))[1]
    assert session.stats.cached_tokens == 0


@pytest.mark.usefixtures("exact_buffers")
def test_the_store_lives_longer_than_its_batch_and_gives_all_memory_back(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    write(pair, store, asked(PROMPT, marks=[100]))
    store.clear()
    before = active_memory()
    for seed in range(4):
        write(pair, store, asked(PROMPT, replace(SAMPLINGS[1], seed=seed), marks=[40, 100]))
    held = active_memory() - before
    assert store.nbytes * 0.9 < held < store.nbytes * 1.1
    store.clear()
    assert active_memory() == before


def test_a_stopped_answer_is_kept_up_to_the_stop(pair: Pair) -> None:
    _, said = write(pair, None, asked(PROMPT, SAMPLINGS[1]))
    stop = said[20]
    shown = said[: said.index(stop)]
    for speculation in ("always", "off"):
        store = PrefixStore(LARGE)
        request = replace(asked(PROMPT, SAMPLINGS[1], speculation=speculation), stop_ids=frozenset({stop}))
        assert write(pair, store, request)[1] == shown
        next_turn = replace(request, prompt=(*PROMPT, *shown, stop, 5))
        session, again = write(pair, store, next_turn)
        assert session.stats.cached_tokens == len(PROMPT) + len(shown)
        assert again == write(pair, None, next_turn)[1]


def test_an_answer_that_stops_after_its_context_went_ahead_is_kept_up_to_the_stop(pair: Pair) -> None:
    """The round behind the stop is under way, and the speculator's context has taken it up with what waited."""
    dear = Table((), costs=Costs().after("plain", 1, 0, 1.0).after("drafted", 8, 0, 1e9))

    def plainly(request: Request, store: PrefixStore) -> list[int]:
        batch = Batch(pair.target, pair.speculator, prefix=store, learned=dear, prefill_chunk=32)
        session = batch.add(request)
        said = text(run_all(batch)[session])
        assert session.stats.drafted == 0
        return said

    request = asked(PROMPT, Sampling(1.5, seed=4), speculation="auto", max_tokens=LAZY_ROWS)
    *shown, stop = plainly(request, PrefixStore(LARGE))
    assert stop not in shown
    store = PrefixStore(LARGE)
    assert plainly(replace(request, stop_ids=frozenset({stop}), max_tokens=90), store) == shown
    assert store.find((*PROMPT, *shown, stop, 5), drafting=True).offset == len(PROMPT) + len(shown)
