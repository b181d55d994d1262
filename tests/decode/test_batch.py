from dataclasses import replace

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.decode.batch import Batch
from models.decode.prefix import PrefixStore
from models.decode.session import InvalidRequest, Sampling, Session, Speculation
from tests.decode.scripted import (
    BLOCK,
    VOCAB,
    Says,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    by_turns,
    decode,
    ids_of,
    plainly,
    right,
    right_to,
    run_all,
    text,
    wrong,
)

SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.7, seed=-5),
    Sampling(temperature=1.2, seed=2**40),
    Sampling(temperature=0.7, top_k=9, seed=1),
    Sampling(temperature=1.2, top_k=20, top_p=0.9, min_p=0.02, seed=2),
]
SPECULATION: list[Speculation] = ["always", "auto", "off"]


def pair(says: Says = blurred, block_size: int = BLOCK) -> tuple[ScriptedTarget, ScriptedSpeculator]:
    target = ScriptedTarget()
    return target, ScriptedSpeculator(target, says, block_size)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("says", [right, wrong, by_turns, blurred])
def test_the_text_is_the_same_with_and_without_a_speculator(sampling: Sampling, says: Says) -> None:
    wanted = plainly(asked(sampling=sampling))
    assert decode(Batch(ScriptedTarget(), None), asked(sampling=sampling)) == wanted
    for speculation in SPECULATION:
        assert decode(Batch(*pair(says)), asked(sampling=sampling, speculation=speculation)) == wanted


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("width", range(2, 17))
def test_the_text_is_the_same_at_every_width(sampling: Sampling, width: int) -> None:
    assert decode(Batch(*pair(blurred, width)), asked(sampling=sampling)) == plainly(asked(sampling=sampling))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=40), st.integers(1, 50), st.integers(1, 20))
def test_the_text_is_the_same_for_any_chunks_of_any_prompt(prompt: list[int], chunk: int, beside: int) -> None:
    wanted, other = asked(prompt, max_tokens=12), asked([5, 5, 5], max_tokens=20)
    batch = Batch(*pair(right_to(2)), prefill_chunk=chunk, prefill_chunk_beside=beside)
    first = batch.add(other)
    got: dict[Session, list[int]] = {first: []}
    for _ in range(3):
        got[first] += text(batch.step())
    second = batch.add(wanted)
    rest = run_all(batch)
    assert text(rest[second]) == plainly(wanted)
    assert got[first] + text(rest[first]) == plainly(other)


@pytest.mark.parametrize("speculation", SPECULATION)
def test_four_sessions_that_come_and_go_write_what_each_writes_alone(speculation: Speculation) -> None:
    requests = [
        asked([7] * (5 * i + 1), sampling=sampling, max_tokens=150 + 7 * i, speculation=speculation)
        for i, sampling in enumerate(SAMPLINGS[:4])
    ]
    target, speculator = pair(blurred)
    # Each pass takes a second however many its rows, so blocks pay.
    batch = Batch(target, speculator, prefill_chunk=4, prefill_chunk_beside=5, clock=lambda: float(len(target.passes)))
    got: dict[Session, list[int]] = {}
    for request in requests:
        session = batch.add(request)
        got[session] = []
        for update in batch.step() + batch.step():
            got[update.session] += update.ids
    for session, updates in run_all(batch).items():
        got[session] += text(updates)
    assert list(got.values()) == [plainly(request) for request in requests]
    assert max(rows for rows, _ in target.passes) == 4
    assert speculation == "off" or max(len(widths) for widths in speculator.blocks) > 1


def test_sessions_of_different_width_share_a_pass() -> None:
    target, speculator = pair(right)
    batch = Batch(target, speculator)
    requests = [asked(max_tokens=30), asked([1, 2], max_tokens=5), asked([9], max_tokens=30, speculation="off")]
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert [text(got[s]) for s in sessions] == [plainly(request) for request in requests]
    assert (8, 4) in speculator.blocks
    assert (3, 8 + 4 + 1) in target.passes


@pytest.mark.parametrize("says", [right, wrong, by_turns, blurred])
@pytest.mark.parametrize("speculation", SPECULATION)
def test_nothing_after_a_stop_id_is_in_ids_stats_or_caches(says: Says, speculation: Speculation) -> None:
    found = 0
    for first in range(12):
        target = ScriptedTarget(stop_every=9)
        speculator = ScriptedSpeculator(target, says)
        request = asked([first, 2, 3], stop_ids=[0], max_tokens=60, speculation=speculation)
        batch = Batch(target, speculator)
        session = batch.add(request)
        updates = run_all(batch)[session]
        ids = text(updates)
        assert ids == plainly(request, target)
        assert 0 not in ids
        assert session.finish == updates[-1].finish
        found += session.finish == "stop"
        fed = ids if session.finish == "stop" else ids[:-1]
        assert target.caches[0].held.tolist() == [*request.prompt, *fed]
        assert session.stats.completion_tokens == len(ids)
        if speculator.contexts:
            context = ids_of(speculator.contexts[0].held)
            assert context == [*request.prompt, *ids][: len(context)]
    assert found > 8


@pytest.mark.parametrize("budget", range(1, 20))
def test_a_budget_ends_inside_a_block(budget: int) -> None:
    target, speculator = pair(right)
    batch = Batch(target, speculator)
    session = batch.add(asked(max_tokens=budget))
    updates = run_all(batch)[session]
    assert text(updates) == plainly(asked(max_tokens=budget))
    assert [update.finish for update in updates] == [None] * (len(updates) - 1) + ["length"]
    assert session.stats.completion_tokens == budget
    assert target.caches[0].offset == 8 + budget - 1


def test_a_perfect_drafter_commits_a_block_a_round() -> None:
    batch = Batch(*pair(right))
    session = batch.add(asked(max_tokens=1 + 5 * BLOCK))
    run_all(batch)
    stats = session.stats
    assert (stats.rounds, stats.drafted, stats.accepted) == (5, 35, 35)
    assert stats.drafted_by_depth == stats.accepted_by_depth == (5,) * 7
    assert stats.speculation_off is None


def test_a_useless_drafter_costs_rounds_and_nothing_else() -> None:
    batch = Batch(*pair(wrong))
    session = batch.add(asked(max_tokens=20))
    run_all(batch)
    stats = session.stats
    assert (stats.rounds, stats.accepted) == (19, 0)
    # The last blocks are as narrow as the budget.
    assert stats.drafted == 12 * 7 + sum(range(7))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_acceptance_is_counted_by_depth(depth: int) -> None:
    batch = Batch(*pair(right_to(depth)))
    session = batch.add(asked(max_tokens=1 + 6 * (depth + 1)))
    run_all(batch)
    stats = session.stats
    assert (stats.rounds, stats.accepted) == (6, 6 * depth)
    assert stats.accepted_by_depth[: depth + 1] == (6,) * depth + (0,)


def test_a_drafter_that_is_right_every_other_round_wins_every_other_round() -> None:
    target = ScriptedTarget()
    speculator = ScriptedSpeculator(target, lambda true, seen, depth: true if len(speculator.blocks) % 2 else -true)
    batch = Batch(target, speculator)
    session = batch.add(asked(max_tokens=1 + 3 * (BLOCK + 1)))
    run_all(batch)
    assert (session.stats.rounds, session.stats.accepted) == (6, 21)
    assert session.stats.accepted_by_depth == (3,) * 7


@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("says", [right, blurred])
def test_a_round_costs_one_host_read(says: Says, speculation: Speculation) -> None:
    reads: list[int] = []

    def read(packed: mx.array) -> list[int]:
        reads.append(packed.size)
        return ids_of(packed)

    batch = Batch(*pair(says), prefill_chunk=3, read=read)
    for length in (2, 9, 17):
        batch.add(asked([4] * length, speculation=speculation, max_tokens=25))
    steps = 0
    while batch.sessions:
        batch.step()
        steps += 1
        assert len(reads) == steps


def test_plain_rounds_run_ahead_of_the_host() -> None:
    """When a step returns, the next pass was enqueued before this one's ids were read."""
    target = ScriptedTarget()
    passes_at_read: list[int] = []

    def read(packed: mx.array) -> list[int]:
        passes_at_read.append(len(target.passes))
        return ids_of(packed)

    decode(Batch(target, None, read=read), asked(max_tokens=10))
    assert passes_at_read == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10]


def test_a_mark_in_a_prompt_holds_up_nobody_else_and_one_at_its_end_nobody() -> None:
    target, store = ScriptedTarget(), PrefixStore(1 << 30)
    passes_at_read: list[int] = []

    def read(packed: mx.array) -> list[int]:
        passes_at_read.append(len(target.passes))
        return ids_of(packed)

    batch = Batch(target, None, prefix=store, read=read)
    batch.add(asked(max_tokens=40))
    batch.step()
    batch.add(replace(asked([3] * 60, max_tokens=4, speculation="off"), marks=(20, 58)))
    run_all(batch)
    assert store.marks >= 3
    assert passes_at_read == [*range(2, len(passes_at_read) + 1), len(passes_at_read)]


def test_the_next_block_is_under_way_when_a_step_hands_out_what_the_last_one_wrote() -> None:
    """A block waits for the ids before it, and for nothing that is done with them."""
    target, speculator = pair(right_to(3))
    passes_at_read: list[int] = []

    def read(packed: mx.array) -> list[int]:
        passes_at_read.append(len(target.passes))
        return ids_of(packed)

    batch = Batch(target, speculator, read=read)
    session = batch.add(asked(max_tokens=20, speculation="always"))
    while session.finish is None:
        batch.step()
        assert len(target.passes) == len(passes_at_read) + (session.finish is None)
    assert passes_at_read == list(range(1, len(passes_at_read) + 1))
    assert len(speculator.blocks) > 3


def test_an_unknown_prompt_id_and_an_empty_chunk_are_refused_by_name() -> None:
    batch = Batch(ScriptedTarget(), None)
    with pytest.raises(InvalidRequest, match=f"prompt is {VOCAB}"):
        batch.add(asked([1, VOCAB]))
    with pytest.raises(InvalidRequest, match="prefill_chunk is 0"):
        Batch(ScriptedTarget(), None, prefill_chunk=0)


def test_stats_say_why_nothing_was_drafted() -> None:
    nothing = Batch(ScriptedTarget(), None, speculation_off="none was found")
    off, short = Batch(*pair()), Batch(*pair())
    sessions = [nothing.add(asked()), off.add(asked(speculation="off")), short.add(asked(max_tokens=1))]
    for batch in (nothing, off, short):
        run_all(batch)
    assert [session.stats.speculation_off for session in sessions] == [
        "none was found",
        "the request turned speculation off",
        "the answer ended before anything was drafted",
    ]


def test_times_split_at_the_first_id() -> None:
    now = iter(range(10_000))
    batch = Batch(ScriptedTarget(), None, prefill_chunk=4, clock=lambda: float(next(now)))
    session = batch.add(asked(max_tokens=5))
    run_all(batch)
    assert session.stats.prefill_seconds == 2.0
    assert session.stats.decode_seconds == 4.0
