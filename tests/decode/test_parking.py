"""A session that gives its caches up for a while writes what it would have written, and counts what it would have."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from models.decode.batch import Batch, Update
from models.decode.prefix import PrefixStore
from models.decode.request import Request
from models.decode.session import Sampling, Session, Speculation
from tests.decode.random_pair import LARGE, PROMPT, SAMPLINGS, Pair, asked
from tests.decode.scripted import ScriptedSpeculator, ScriptedTarget, blurred, history_of, run_all, text
from tests.decode.scripted import asked as scripted

SPECULATION: list[Speculation] = ["auto", "always", "off"]
WISHES = [
    *SAMPLINGS,
    Sampling(temperature=0.8, top_k=7, seed=-9),
    Sampling(presence_penalty=1.5, frequency_penalty=0.5),
    Sampling(temperature=0.7, repetition_penalty=1.4, logit_bias=((3, 4.0), (9, -100.0)), seed=4),
]


def interrupted(batch: Batch, requests: Sequence[Request], random: Random) -> list[list[Update]]:
    """What each was told, though any of them is parked, and resumed, after any round."""
    sessions = [batch.add(request) for request in requests]
    got: dict[Session, list[Update]] = {session: [] for session in sessions}
    away: list[Session] = []
    while batch.sessions or away:
        for update in batch.step():
            assert update.session not in away
            got[update.session].append(update)
        for session in batch.sessions:
            if random.random() < 0.12:
                batch.park(session)
                away.append(session)
                assert (session.caches, session.context, session.pending) == ((), (), [])
        while away and random.random() < 0.5:
            batch.resume(away.pop(random.randrange(len(away))))
    return list(got.values())


def told(updates: Sequence[Update]) -> tuple[object, ...]:
    """All that a client hears of it."""
    (last,) = {update.session for update in updates}
    scores = [score for update in updates for score in update.scores]
    prompt = [update.prompt for update in updates if update.prompt is not None]
    return text(updates), last.finish, scores, prompt, last.stats.cached_tokens, last.stats.completion_tokens


def of_every_kind(speculation: Speculation) -> list[Request]:
    plain = [
        scripted(
            [index + 1] * (9 + 20 * index), sampling=sampling, max_tokens=24, stop_ids=[0], speculation=speculation
        )
        for index, sampling in enumerate(WISHES)
    ]
    scored = replace(plain[1], prompt=tuple(range(50)) * 3, top_logprobs=2, prompt_logprobs=1)
    predicting = replace(plain[2], prompt=(5, 4, 3), prediction=(1, 2, 3) * 9, top_logprobs=0)
    return [*plain, scored, predicting]


@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("store", [None, 600, LARGE])
def test_a_crowd_that_comes_and_goes_is_told_what_each_is_told_alone(
    speculation: Speculation, store: int | None
) -> None:
    requests = of_every_kind(speculation)
    alone = [next(iter(run_all(_over(None, one)).values())) for one in requests]
    kept = None if store is None else PrefixStore(store)
    got = interrupted(_over(kept), requests, Random(f"{speculation} {store}"))
    assert [told(updates) for updates in got] == [told(updates) for updates in alone]
    if kept is not None:
        kept.check()


def _over(store: PrefixStore | None, *requests: Request) -> Batch:
    target = ScriptedTarget(stop_every=40)
    batch = Batch(target, ScriptedSpeculator(target, blurred), prefix=store, prefill_chunk=16)
    for request in requests:
        batch.add(request)
    return batch


@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("budget", [None, LARGE])
def test_the_networks_go_on_where_they_stopped(pair: Pair, speculation: Speculation, budget: int | None) -> None:
    requests = [
        asked(PROMPT[start:], each, speculation=speculation, marks=[20], max_tokens=30)
        for start, each in enumerate(SAMPLINGS)
    ]
    alone = [text(updates) for one in requests for updates in run_all(_real(pair, None, one)).values()]
    store = None if budget is None else PrefixStore(budget)
    got = interrupted(_real(pair, store), requests, Random(speculation))
    assert [text(updates) for updates in got] == alone
    assert [updates[0].session.stats.cached_tokens for updates in got] == [0, 0]


def _real(pair: Pair, store: PrefixStore | None, *requests: Request) -> Batch:
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    for request in requests:
        batch.add(request)
    return batch


@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("steps", [3, 7, 12])
def test_what_was_read_is_kept_up_to_the_last_token_and_is_not_read_again(
    pair: Pair, speculation: Speculation, steps: int
) -> None:
    store = PrefixStore(LARGE)
    batch = _real(pair, store, asked(PROMPT, speculation=speculation, max_tokens=60))
    (session,) = batch.sessions
    for _ in range(steps):
        batch.step()
    known, read = session.tokens(0, session.length), session.fed
    batch.park(session)
    batch.resume(session)
    found = store.find(known, drafting=speculation != "off").offset
    # Rows of a block under way are drafts.
    assert found == min(read, len(known) - 1) > 90
    batch.step()
    assert session.fed > found
    assert session.stats.cached_tokens == 0


def test_usage_tells_of_the_first_reading_alone(pair: Pair) -> None:
    store = PrefixStore(LARGE)
    run_all(_real(pair, store, asked(PROMPT[:100], max_tokens=1)))
    batch = _real(pair, store, asked(PROMPT, marks=[60]))
    (session,) = batch.sessions
    batch.park(session)
    batch.resume(session)
    batch.step()
    first = session.stats.cached_tokens, session.stats.parted_at
    assert first[0] > 90
    for _ in range(6):
        batch.park(session)
        batch.resume(session)
        batch.step()
        batch.step()
        assert (session.stats.cached_tokens, session.stats.parted_at) == first
    run_all(batch)
    assert (session.stats.cached_tokens, session.stats.parted_at) == first


def test_a_parked_session_can_be_cancelled_and_nobody_looks_at_its_rows() -> None:
    target = ScriptedTarget()
    batch = Batch(target, None)
    stays, goes = batch.add(scripted([1, 2])), batch.add(scripted([3] * 9))
    kept = [update for _ in range(3) for update in batch.step()]
    batch.park(goes)
    batch.cancel(goes)
    assert (goes.finish, goes.emitted, batch.sessions) == (
        "cancelled",
        text([update for update in kept if update.session is goes]),
        (stays,),
    )
    after = [update for updates in run_all(batch).values() for update in updates]
    assert {update.session for update in after} == {stays}
    assert history_of(target.caches[0]).held.size == 2 + 39
