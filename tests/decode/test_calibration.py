import json
from dataclasses import replace
from typing import Any

import pytest

from models.decode.acceptance import Subject
from models.decode.batch import Batch
from models.decode.calibration import InvalidCalibration, restored, saved
from models.decode.reading import Others, Reading
from models.decode.width import SLOWER, Table, candidates
from tests.decode.machines import SPECULATOR, Machine, bandwidth, linear, steady
from tests.decode.scripted import ScriptedSpeculator, ScriptedTarget, asked, plainly, run_all, text, wrong


def learned(growth: float = 0.5) -> Table:
    machine = Machine(bandwidth, steady(0.9), growth=growth)
    machine.decode(1500)
    return machine.learned


def through_json(table: Table) -> Table:
    return restored(json.loads(json.dumps(saved(table))), table.widths)


def test_costs_and_acceptance_come_back_from_json() -> None:
    table = learned()
    again = through_json(table)
    assert {kind for kind, _ in table.costs.usual} == {"plain", "drafted"}
    assert {place for _, place in table.costs.usual} == {0, 1}
    assert again.costs.usual == table.costs.usual
    own, other = (found.record.of(SPECULATOR) for found in (table, again))
    assert other.rates == pytest.approx(own.usual, abs=1e-4)
    assert saved(again) == saved(table)


def test_a_machine_that_starts_from_a_calibration_drafts_wide_at_once() -> None:
    machine = Machine(bandwidth, steady(0.9), table=through_json(learned()))
    machine.decode(30)
    assert machine.widths[:3] == [8, 8, 8]


def test_a_saved_acceptance_is_a_start_that_changes_quickly() -> None:
    slow = Machine(linear, steady(0.9))
    slow.decode(800)
    machine = Machine(linear, steady(0.9), table=through_json(slow.learned))
    machine.decode(60)
    assert sum(rows > 1 for rows in machine.widths) <= 2
    quick = through_json(learned())
    once = quick.record.after(SPECULATOR, 7, 0)
    assert once.of(SPECULATOR).rates[0] < quick.record.of(SPECULATOR).rates[0] - 0.1


def test_what_one_batch_learned_serves_another() -> None:
    def batch(learned: Table | None) -> tuple[Batch, ScriptedTarget]:
        target = ScriptedTarget()
        clock = lambda: float(sum(count for _, count in target.passes))  # noqa: E731
        return Batch(target, ScriptedSpeculator(target, wrong), learned=learned, clock=clock), target

    first, _ = batch(None)
    first.add(asked(max_tokens=200, speculation="auto"))
    run_all(first)
    again, target = batch(through_json(first.learned))
    session = again.add(asked(max_tokens=30, speculation="auto"))
    assert text(run_all(again)[session]) == plainly(asked(max_tokens=30))
    # What others' drafts were like does not settle it: one round tries.
    assert session.stats.drafted <= 2
    assert session.plain_because == SLOWER
    assert len(target.passes) == 30


def paced() -> Reading:
    """What was learned beside a long prompt on a machine where many rows are nearly free."""
    one, reading = Others.of(1, drafting=False), Reading()
    for rows in [0] * 12:
        reading = reading.after(one, rows, 1.0)
    for _ in range(60):
        rows = reading.rows(one, 512)
        reading = reading.after(one, rows, 1 + rows / 1000)
    return reading


def test_how_many_prompt_rows_others_bear_comes_back_from_json() -> None:
    one = Others.of(1, drafting=False)
    table = replace(Table(candidates(8)), reading=paced())
    again = through_json(table)
    assert paced().rows(one, 512) == again.reading.rows(one, 512) == 512
    assert Reading().rows(one, 512) == 0
    assert saved(again) == saved(table)
    assert again.reading.rows(Others.of(2, drafting=True), 512) == 0, "that was never measured"
    sizes = {entry["rows"] for entry in saved(table)["extra"]}
    assert sizes == {16, 32, 64, 128, 256, 512}


def test_a_saved_pace_is_a_start_that_changes_quickly() -> None:
    one, reading = Others.of(1, drafting=False), through_json(replace(Table(candidates(8)), reading=paced())).reading
    for _ in range(9):
        reading = reading.after(one, reading.rows(one, 512), 10.0)
    assert reading.rows(one, 512) < 64


def test_a_pace_measured_once_is_not_saved() -> None:
    one = Others.of(1, drafting=False)
    reading = Reading().after(one, 0, 1.0).after(one, 0, 1.0).after(one, 16, 2.0)
    assert reading.usual
    assert reading.extra
    value = saved(replace(Table(candidates(8)), reading=reading))
    assert (value["usual"], value["extra"]) == ([], [])


def with_(name: str, **changed: object) -> dict[str, Any]:
    value = saved(replace(learned(), reading=paced()))
    value[name][0] |= changed
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({}, "costs is None"),
        ({"costs": [], "acceptance": {}}, "acceptance is {}"),
        ({"costs": [], "acceptance": [], "usual": 1}, "usual is 1"),
        ({"costs": [], "acceptance": [], "usual": []}, "extra is None"),
        ({"costs": [5], "acceptance": []}, "costs is [5]"),
        (with_("costs", kind="odd"), "costs[0].kind is 'odd'"),
        (with_("costs", rows=0), "costs[0].rows is 0"),
        (with_("costs", rows=True), "costs[0].rows is True"),
        (with_("costs", context=-1), "costs[0].context is -1"),
        (with_("costs", seconds=0), "costs[0].seconds is 0"),
        (with_("costs", seconds=float("nan")), "costs[0].seconds is nan"),
        (with_("costs", seconds="1"), "costs[0].seconds is '1'"),
        (with_("costs", seconds=10**400), "costs[0].seconds is 1000"),
        (with_("usual", sessions=0), "usual[0].sessions is 0"),
        (with_("usual", drafting=None), "usual[0].drafting is None"),
        (with_("usual", seconds=0), "usual[0].seconds is 0"),
        (with_("extra", rows=1), "extra[0].rows is 1"),
        (with_("extra", seconds=-1), "extra[0].seconds is -1"),
        (with_("acceptance", source="luck"), "acceptance[0].source is 'luck'"),
        (with_("acceptance", phase="dreams"), "acceptance[0].phase is 'dreams'"),
        (with_("acceptance", trusted=1), "acceptance[0].trusted is 1"),
        (with_("acceptance", rates=[0.5, 1.5]), "acceptance[0].rates[1] is 1.5"),
        (with_("acceptance", rates=[0.5] * 64), "acceptance[0].rates is [0.5"),
    ],
)
def test_what_is_no_calibration_is_refused_by_its_place(value: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidCalibration) as refused:
        restored(value, candidates(8))
    assert str(refused.value).startswith(place)


def test_nothing_learned_is_nothing_saved() -> None:
    assert saved(Table(candidates(8))) == {"costs": [], "acceptance": [], "usual": [], "extra": []}
    subject = Subject("copy", "arguments", True)
    table = Table(candidates(8))
    record = table.record.after(subject, 3, 3)
    assert [entry["source"] for entry in saved(Table(candidates(8), record=record))["acceptance"]] == ["copy"]
