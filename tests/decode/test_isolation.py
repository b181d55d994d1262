import gc
import weakref

import pytest

from models.decode.batch import Batch, Update
from models.decode.prefix import PrefixStore
from models.decode.session import Sampling, Session, Speculation
from tests.decode.scripted import (
    SILENT,
    CacheSpent,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    plainly,
    right,
    right_to,
    run_all,
    text,
)


def told(batch: Batch, sessions: list[Session], limit: int = 500) -> dict[Session, list[Update]]:
    got = run_all(batch, limit)
    return {session: got.get(session, []) for session in sessions}


@pytest.mark.parametrize("speculation", ["always", "off"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_cancelled_session_lets_go_of_its_caches_at_once_and_gets_no_row_more(
    steps: int, speculation: Speculation
) -> None:
    target = ScriptedTarget()
    speculator = ScriptedSpeculator(target, blurred)
    batch = Batch(target, speculator, prefill_chunk=3)
    stays, goes = batch.add(asked(speculation=speculation)), batch.add(asked([9, 9], speculation=speculation))
    kept = [update for _ in range(steps) for update in batch.step() if update.session is stays]
    held = [weakref.ref(cache) for cache in (*goes.caches, *goes.context)]
    for record in (target.caches, speculator.contexts):
        record.clear()
    batch.cancel(goes)
    gc.collect()
    assert [ref() for ref in held] == [None] * len(held)
    assert (goes.finish, batch.sessions) == ("cancelled", (stays,))
    passes = len(target.passes)
    kept += told(batch, [stays])[stays]
    assert max(rows for rows, _ in target.passes[passes:]) == 1
    assert text(kept) == plainly(asked())


def test_cancelling_everyone_leaves_nothing_under_way_and_can_be_repeated() -> None:
    target = ScriptedTarget()
    batch = Batch(target, None)
    sessions = [batch.add(asked()), batch.add(asked([1]))]
    batch.step()
    passes = len(target.passes)
    for session in sessions * 2:
        batch.cancel(session)
    assert batch.step() == []
    assert len(target.passes) == passes
    late = batch.add(asked([8]))
    assert text(told(batch, [late])[late]) == plainly(asked([8]))


def test_cancelling_a_finished_session_changes_nothing() -> None:
    batch = Batch(ScriptedTarget(), None)
    session = batch.add(asked(max_tokens=2))
    run_all(batch)
    batch.cancel(session)
    assert session.finish == "length"


@pytest.mark.parametrize("speculation", ["always", "off"])
@pytest.mark.parametrize("joins_after", [0, 1, 4])
def test_a_session_whose_pass_raises_fails_alone(joins_after: int, speculation: Speculation) -> None:
    target = ScriptedTarget(fails_on=SILENT)
    batch = Batch(target, ScriptedSpeculator(target, right), prefill_chunk=4)
    requests = [
        asked([i + 1] * 9, sampling=Sampling(temperature=0.7, top_k=8, seed=i), speculation=speculation)
        for i in range(3)
    ]
    sessions = [batch.add(request) for request in requests]
    got: dict[Session, list[Update]] = {session: [] for session in sessions}
    for _ in range(joins_after):
        for update in batch.step():
            got[update.session].append(update)
    guilty = batch.add(asked([2, 2, 2, SILENT, 2, 2]))
    for session, updates in told(batch, [*sessions, guilty]).items():
        got.setdefault(session, []).extend(updates)
    (failed,) = got.pop(guilty)
    assert isinstance(failed.error, RuntimeError)
    assert (failed.ids, failed.finish, guilty.finish, guilty.caches) == ((), None, "error", ())
    wanted = [plainly(request) for request in requests]
    assert [text(updates) for updates in got.values()] == wanted
    assert {update.error for updates in got.values() for update in updates} == {None}


def test_a_lone_session_that_raises_leaves_the_batch_ready_for_others() -> None:
    batch = Batch(ScriptedTarget(fails_on=SILENT), None)
    guilty = batch.add(asked([SILENT]))
    (failed,) = told(batch, [guilty])[guilty]
    assert isinstance(failed.error, RuntimeError)
    fine = batch.add(asked([3]))
    assert text(told(batch, [fine])[fine]) == plainly(asked([3]))


def test_a_session_whose_rollback_raises_fails_alone_and_the_others_lose_no_id() -> None:
    target = ScriptedTarget(torn_by=SILENT)
    batch = Batch(target, ScriptedSpeculator(target, blurred))
    requests = [asked([1] * 4), asked([SILENT, 3]), asked([2] * 4)]
    sessions = [batch.add(request) for request in requests]
    first, guilty, third = told(batch, sessions).values()
    assert isinstance(guilty[-1].error, CacheSpent)
    assert text(first) == plainly(requests[0])
    assert text(third) == plainly(requests[2])


def test_sessions_that_only_fail_together_all_finish_alone() -> None:
    target = ScriptedTarget(most_rows=1)
    batch = Batch(target, ScriptedSpeculator(target, right_to(2)))
    requests = [asked([i] * 5, max_tokens=30) for i in range(3)]
    sessions = [batch.add(request) for request in requests]
    got = told(batch, sessions)
    assert [text(updates) for updates in got.values()] == [plainly(request) for request in requests]


def test_a_session_that_starts_over_has_read_its_whole_prompt_and_says_so() -> None:
    store, prompt = PrefixStore(1 << 20), [*range(1, 59)] * 2
    target = ScriptedTarget(most_rows=1)
    run = Batch(target, None, prefix=store)
    run.add(asked(prompt))
    run_all(run)
    batch = Batch(target, None, prefix=store)
    resumed, beside = batch.add(asked(prompt)), batch.add(asked([7]))
    batch.step()
    assert resumed.failures == 1
    got = told(batch, [resumed, beside])
    assert [text(updates) for updates in got.values()] == [plainly(asked(prompt)), plainly(asked([7]))]
    assert resumed.stats.cached_tokens == 0


def test_what_raised_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    batch = Batch(ScriptedTarget(fails_on=SILENT), None)
    batch.add(asked([SILENT]))
    batch.step()
    (record,) = caplog.records
    assert record.exc_info is not None
