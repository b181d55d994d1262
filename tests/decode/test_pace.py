"""The pace puts what it knows of sessions to the width's table: how long they are, and what they did not draft."""

import pytest

from models.decode.acceptance import Acceptance, Record, Subject
from models.decode.batch import Batch
from models.decode.costs import NARROW, Costs
from models.decode.pace import Pace
from models.decode.session import Session
from models.decode.width import Table
from tests.decode.scripted import BLOCK, ScriptedTarget, asked, run_all

SUBJECT = Subject("speculator", "answer")
CHEAP, DEAR = 1.2, 1e9


def table(short: float, long: float) -> Table:
    """Blocks cost so many plain rounds in short contexts, and in those of a thousand tokens and more."""
    costs = Costs()
    for place, seconds in enumerate((short, long)):
        costs = costs.after("plain", 1, place, 1.0).after("drafted", BLOCK, place, seconds)
    return Table((), costs=costs)


def decoding(pace: Pace, length: int) -> Session:
    """A session of so many tokens, the last of which is to be fed."""
    session = Session(asked([5] * (length - 1), speculation="auto"), record=pace.record(), speculation_off=None)
    session.emitted, session.fed = [5], length - 1
    return session


@pytest.mark.parametrize(("short", "long", "drafted"), [(CHEAP, DEAR, (True, False)), (DEAR, CHEAP, (False, True))])
def test_what_a_block_costs_is_looked_up_by_the_context(short: float, long: float, drafted: tuple[bool, bool]) -> None:
    found = []
    for length in (10, NARROW):
        pace = Pace(BLOCK, 512, 512, table(short, long))
        session = decoding(pace, length)
        session.guesses.read = lambda *_: None  # ty: ignore[invalid-assignment]
        found.append(pace.plan([session]).blocks[session].count > 0)
    assert tuple(found) == drafted


@pytest.mark.parametrize("length", [10, NARROW])
def test_what_a_round_costs_is_learned_by_the_context(length: int) -> None:
    batch = Batch(ScriptedTarget(), None)
    batch.add(asked([5] * length, max_tokens=8))
    run_all(batch)
    assert {place for _, place in batch.learned.costs.usual} == {int(length == NARROW)}


def test_what_a_session_could_have_drafted_and_did_not_is_believed_less() -> None:
    known = Acceptance((0.1,), (50.0,), (0.9,), (50.0,))
    pace = Pace(BLOCK, 512, 512, Table((), costs=table(DEAR, DEAR).costs, record=Record({SUBJECT: known})))
    session = decoding(pace, 10)
    plan = pace.plan([session])
    assert plan.plain
    pace.follow(plan)
    assert session.record.of(SUBJECT).rates[0] > 0.1


def test_a_round_that_hides_no_other_work_tells_no_cost() -> None:
    """Of the four plain rounds after the prompt's the last one has nothing enqueued behind it."""
    batch = Batch(ScriptedTarget(), None)
    batch.add(asked(max_tokens=5))
    run_all(batch)
    assert [len(measured) for measured in batch.learned.costs.recent.values()] == [3]


def test_a_session_starts_from_what_those_before_it_drafted() -> None:
    known = Record({SUBJECT: Acceptance.of([0.2], 50)})
    session = Batch(ScriptedTarget(), None, learned=Table((), record=known)).add(asked())
    assert session.record == known.handed_on()
