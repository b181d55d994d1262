"""One step of a round raises: nobody else notices, nothing hangs, and the next request is right."""

import gc
import logging
import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest

from models.decode import speculate
from models.decode.batch import Batch, Update
from models.decode.session import Request, Sampling, Session, Speculation
from tests.decode.scripted import asked, plainly, run_all, text
from tests.faults.tally import Tally
from tests.faults.tripping import (
    ROUND,
    STORE,
    Step,
    Tripped,
    TrippingSpeculator,
    TrippingStore,
    TrippingTarget,
    Wire,
    tripping_draw,
    tripping_read,
)

LARGE = 1 << 30
BEGINNING = tuple(index * index % 59 for index in range(80))


def requests(speculation: Speculation = "always") -> list[Request]:
    """A short prompt and two that begin alike, long enough for chunks and marks."""
    hot = Sampling(temperature=0.7, top_k=8, seed=4)
    long = [
        asked((*BEGINNING, 7), max_tokens=12, sampling=hot, speculation=speculation),
        asked((*BEGINNING, 8, 9), max_tokens=10, speculation=speculation),
    ]
    short = asked((3, 1, 4), max_tokens=9, speculation=speculation)
    return [short, *(replace(request, marks=(30, 80)) for request in long)]


WANTED = {request.prompt: plainly(request) for request in requests()}


def batch_over(wire: Wire, store: TrippingStore) -> Batch:
    target = TrippingTarget(wire)
    return Batch(target, TrippingSpeculator(target, wire), prefix=store, prefill_chunk=32, read=tripping_read(wire))


def failures(told: Sequence[tuple[Session, list[Update]]]) -> int:
    """How many failed of the fault; what each said must be the beginning of what it says undisturbed, or all of it."""
    failed = 0
    for session, updates in told:
        error, said = updates[-1].error, text(updates)
        wanted = WANTED[session.request.prompt]
        assert error is None or isinstance(error, Tripped)
        assert said == (wanted if error is None else wanted[: len(said)])
        failed += error is not None
    return failed


def served(batch: Batch, asks: Sequence[Request]) -> list[tuple[Session, list[Update]]]:
    sessions = [batch.add(request) for request in asks]
    got = run_all(batch, 300)
    return [(session, got[session]) for session in sessions]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("step", [*ROUND, *STORE])
@pytest.mark.parametrize("company", [1, 3])
def test_a_step_that_raises_once_costs_nobody_else_a_word(
    step: Step, company: int, late: bool, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = 0
    for at in (1, 2, 4):
        wire = Wire(step, at, late=late)
        monkeypatch.setattr(speculate, "draw", tripping_draw(wire))
        store = TrippingStore(LARGE, wire)
        batch = batch_over(wire, store)
        failed = failures(served(batch, requests()[-company:]))
        failed += failures(served(batch, requests()[::-1]))
        store.check()
        # Alone with the fault, a session is what it is blamed on; what is kept is nobody's blame.
        assert failed <= (0 if company > 1 or step in STORE else wire.fired)
        reached += wire.fired
        tally.case(f"a round: {step}")
    assert reached


@pytest.mark.parametrize("step", ROUND)
def test_a_step_that_goes_on_raising_ends_every_request_and_then_works_again(
    step: Step, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(step, 2, times=10**6)
    monkeypatch.setattr(speculate, "draw", tripping_draw(wire))
    store = TrippingStore(LARGE, wire)
    batch = batch_over(wire, store)
    failures(served(batch, requests()))
    assert wire.fired
    wire.times = 0
    assert failures(served(batch, requests())) == 0
    store.check()
    tally.case(f"a round: {step}, from then on")


@pytest.mark.parametrize("step", STORE)
def test_a_store_that_is_broken_for_good_costs_time_alone(step: Step, tally: Tally) -> None:
    wire = Wire(step, 1, times=10**6)
    store = TrippingStore(LARGE, wire)
    batch = batch_over(wire, store)
    for _ in range(2):
        assert failures(served(batch, requests())) == 0
    assert wire.fired
    tally.case(f"a round: {step}, from then on")


def test_what_failed_holds_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    # A record that the test's runner keeps would hold the frames of what failed.
    monkeypatch.setattr(logging.getLogger("models.decode.batch"), "disabled", True)
    wire = Wire("verify", 3, times=10**6)
    batch = batch_over(wire, TrippingStore(0, wire))
    sessions = [batch.add(request) for request in requests()]
    batch.step()
    held = [weakref.ref(cache) for session in sessions for cache in (*session.caches, *session.context)]
    run_all(batch, 300)
    gc.collect()
    assert held
    assert [ref() for ref in held] == [None] * len(held)
