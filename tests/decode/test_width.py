from dataclasses import replace

import pytest

from models.decode.acceptance import Acceptance, Subject
from models.decode.blocks import Offer, Wish
from models.decode.costs import Costs
from models.decode.width import MEASURING, SLOWER, Table, accept, candidates, decide, learn
from tests.decode.machines import (
    SPECULATOR,
    Curve,
    Machine,
    bandwidth,
    bundled,
    cliffs,
    linear,
    steady,
    stepped,
    switching,
)


def wish(acceptance: Acceptance | None = None, most: int = 8, fixed: int | None = None) -> Wish:
    return Wish((Offer(SPECULATOR, acceptance or Acceptance(), most),) if most > 1 else (), fixed)


@pytest.mark.parametrize("curve", [linear, bundled, bandwidth, stepped])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_is_never_much_slower_than_plain_decoding_and_not_far_from_the_best_width(
    curve: Curve, rate: float, noise: float
) -> None:
    machine = Machine(curve, steady(rate), noise=noise)
    seconds = machine.decode(2000)
    plain, best = machine.hindsight(2000)
    assert seconds <= plain / 0.97
    assert seconds <= best / 0.93


@pytest.mark.parametrize("curve", [linear, bandwidth, cliffs])
@pytest.mark.parametrize("every", [100, 300, 1000])
@pytest.mark.parametrize(("streams", "growth", "block"), [(1, 0.0, 8), (1, 0.5, 16), (4, 0.5, 8), (4, 0.0, 16)])
def test_it_follows_a_drafter_that_is_good_and_bad_in_turn(
    curve: Curve, every: int, streams: int, growth: float, block: int
) -> None:
    """Against the best width for the whole text, known beforehand; what a round costs grows with the context."""
    machine = Machine(curve, switching(0.2, 0.9, every), streams, block, growth)
    seconds = machine.decode(2000)
    plain, best = machine.hindsight(2000)
    assert seconds <= plain / 0.97
    assert seconds <= best / 0.93


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_where_rows_are_costly_it_parks_within_a_few_rounds(rate: float) -> None:
    machine = Machine(linear, steady(rate))
    machine.decode(120)
    assert sum(rows > 1 for rows in machine.widths) <= 6
    assert machine.decode(200) <= 200 / 0.95


def test_what_was_learned_serves_the_next_session() -> None:
    first = Machine(linear, steady(0.0))
    first.decode(100)
    second = Machine(linear, steady(0.0), table=first.learned)
    assert second.decode(40) <= 40 / 0.9
    quick = Machine(bandwidth, steady(0.9))
    quick.decode(100)
    again = Machine(bandwidth, steady(0.9), table=quick.learned)
    again.decode(20)
    assert again.widths[0] == 8


def test_it_comes_back_when_drafts_become_good() -> None:
    machine = Machine(bandwidth, steady(0.02))
    machine.decode(400)
    assert machine.widths[-20:].count(1) >= 16
    machine.skill = steady(0.9)
    machine.decode(1500)
    assert machine.widths[-50:].count(8) >= 45


def test_it_stops_when_drafts_become_bad() -> None:
    machine = Machine(bundled, steady(0.95))
    machine.decode(500)
    machine.skill, machine.widths = steady(0.1), []
    machine.decode(300)
    assert sum(rows > 1 for rows in machine.widths) <= 30


def test_a_long_context_in_which_drafts_do_not_pay_parks_none_of_the_short_ones_after_it() -> None:
    """A round is a little dearer than plain in a short context, and blocks cost many times as much in a long one."""

    def decided(table: Table, place: int) -> tuple[int, Table]:
        decision, table = decide(table, [wish(Acceptance())], place)
        return decision.rows[0], table

    table, long = Table(candidates(8)), 6
    for place, factor in ((0, 1.0), (long, 9.0)):
        for _ in range(12):
            rows, table = decided(table, place)
            kind, took = ("plain", 1.0) if rows == 1 else ("drafted", (1 + 0.05 * rows) * factor)
            table = learn(table, kind, rows, seconds=took, steady=True, place=place)
            table = accept(table, SPECULATOR, rows - 1, rows - 1) if rows > 1 else table
    assert decided(table, long)[0] == 1
    assert decided(table, 0)[0] > 1


def test_one_slow_round_does_not_park_it() -> None:
    machine = Machine(bandwidth, steady(0.9))
    machine.decode(300)
    slow = learn(machine.learned, "drafted", 8, seconds=100.0, steady=True)
    decision, _ = decide(slow, [wish(machine.record.of(SPECULATOR))])
    assert decision.rows == (8,)


def test_plain_is_measured_first_then_a_narrow_block() -> None:
    table = Table(candidates(16))
    wide = wish(most=16)
    decision, table = decide(table, [wide])
    assert (decision.rows, decision.plain_because) == ((1,), MEASURING)
    table = learn(table, "plain", 1, seconds=1.0, steady=True)
    decision, table = decide(table, [wide])
    assert (decision.rows, decision.plain_because) == ((4,), None)
    table = learn(table, "drafted", 4, seconds=9.0, steady=True)
    decision, table = decide(table, [wide])
    assert (decision.rows, decision.plain_because) == ((1,), SLOWER)


def test_unsteady_rounds_teach_no_cost() -> None:
    table = learn(Table(candidates(8)), "plain", 1, seconds=1.0, steady=False)
    assert table.costs == Costs()
    assert table.credit > 0


def test_fixed_widths_and_small_budgets_are_kept() -> None:
    table = Table(candidates(8))
    wishes = [wish(fixed=8), wish(most=3, fixed=8), wish(most=1)]
    decision, same = decide(table, wishes)
    assert (decision.rows, same) == ((8, 3, 1), table)


def test_sessions_with_good_drafts_get_wide_blocks_beside_sessions_with_bad_ones() -> None:
    costs = Costs({("plain", 0): {2: 2.0, 1: 1.0}, ("drafted", 0): {2: 2.2, 9: 5.0, 16: 8.5}})
    table = Table(candidates(8), costs=costs)
    good, bad = Acceptance.of([0.97], 50), Acceptance.of([0.05], 50)
    decision, _ = decide(table, [wish(good), wish(bad)])
    assert decision.rows == (8, 1)


def test_probes_get_rarer_as_they_fail() -> None:
    machine = Machine(bundled, steady(0.1))
    machine.decode(4000)
    drafted = [place for place, rows in enumerate(machine.widths) if rows > 1]
    early = sum(place < 1000 for place in drafted)
    late = sum(place >= 3000 for place in drafted)
    assert 0 < late < early
    assert machine.decode(2000) <= 2000 / 0.975


@pytest.mark.parametrize(
    ("block", "rows"),
    [(1, (1,)), (2, (1, 2)), (4, (1, 3, 4)), (6, (1, 3, 4, 5, 6)), (8, (1, 3, 4, 5, 8)), (16, (1, 3, 4, 5, 9, 16))],
)
def test_candidates_fit_the_block(block: int, rows: tuple[int, ...]) -> None:
    assert candidates(block) == rows


GIVEN = Offer(Subject("copy", "answer", True), Acceptance.of([0.95], 50), 8, tuple(range(7)))
LEARNED = Table(candidates(8), costs=Costs({("plain", 0): {1: 1.0}, ("drafted", 0): {4: 1.6, 8: 2.0}}))


def test_known_drafts_are_preferred_where_they_promise_more() -> None:
    weak, strong = Offer(SPECULATOR, Acceptance.of([0.6], 50), 8), Offer(SPECULATOR, Acceptance.of([0.99], 50), 8)
    decision, _ = decide(LEARNED, [Wish((weak, GIVEN))])
    assert [(choice.rows, choice.offer) for choice in decision.choices] == [(8, GIVEN)]
    decision, _ = decide(LEARNED, [Wish((strong, GIVEN))])
    assert [choice.offer for choice in decision.choices] == [strong]


def test_known_drafts_are_cheaper_by_the_pass_that_they_save() -> None:
    even = replace(GIVEN, acceptance=Acceptance.of([0.9], 50))
    speculator = Offer(SPECULATOR, Acceptance.of([0.91], 50), 8)
    cheap = replace(LEARNED, costs=LEARNED.costs.after("given", 8, 0, 1.6))
    assert [decide(table, [Wish((speculator, even))])[0].choices[0].offer for table in (LEARNED, cheap)] == [
        speculator,
        even,
    ]


def test_sessions_with_different_sources_share_a_round() -> None:
    speculator = Offer(SPECULATOR, Acceptance.of([0.9], 50), 8)
    costs = Costs({("plain", 0): {2: 1.2}, ("drafted", 0): {2: 1.4, 16: 2.2}})
    decision, _ = decide(replace(LEARNED, costs=costs), [Wish((speculator,)), Wish((GIVEN,))])
    assert [choice.offer for choice in decision.choices] == [speculator, GIVEN]
    assert decision.rows == (8, 8)


def test_a_block_of_known_drafts_is_no_wider_than_what_is_known() -> None:
    short = replace(GIVEN, most=3, ids=(1, 2))
    decision, _ = decide(LEARNED, [Wish((short,))])
    assert decision.rows == (3,)


def test_a_kind_of_round_that_was_never_measured_is_tried_narrow_once() -> None:
    table = Table(candidates(16), costs=Costs({("plain", 0): {1: 1.0}}))
    decision, table = decide(table, [Wish((GIVEN,))])
    assert decision.rows == (4,)
    table = learn(table, "given", 4, seconds=9.0, steady=True)
    decision, _ = decide(table, [Wish((GIVEN,))])
    assert decision.rows == (1,)


def test_phases_of_different_skill_are_followed_at_once() -> None:
    """Thinking that drafts badly and code that drafts well, in turn: each is decoded as it should be from its start."""
    machine = Machine(bandwidth, steady(0.9))
    thinking = replace(machine, skill=steady(0.05), subject=Subject("speculator", "thinking"), widths=[])
    machine.decode(300)
    thinking.learned, thinking.record = machine.learned, machine.record
    thinking.decode(300)
    machine.learned, machine.record, machine.widths = thinking.learned, thinking.record, []
    machine.decode(60)
    assert machine.widths[0] == 8
    thinking.learned, thinking.record, thinking.widths = machine.learned, machine.record, []
    thinking.decode(30)
    assert thinking.widths.count(1) >= 26


def answers(machine: Machine, rates: list[float], tokens: int = 64) -> list[float]:
    """How many times as fast as plain decoding each of these answers is, one request after another."""
    found = []
    for rate in rates:
        machine.skill, machine.latest = steady(rate), None
        machine.record = machine.learned.record.handed_on()
        found.append(tokens * machine.curve(1, False) / machine.decode(tokens))
    return found


@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_short_answers_that_draft_well_after_others_that_do_not_are_soon_drafted(slower: float) -> None:
    """Tool calls after prose, where costs were measured while something else kept the machine busy."""
    costs = Costs().after("plain", 1, 0, slower * bandwidth(1, False))
    for rows in candidates(16)[1:]:
        costs = costs.after("drafted", rows, 0, slower * bandwidth(rows, True))
    machine = Machine(bandwidth, steady(0.1), block=16, table=Table(candidates(16), costs=costs))
    bad, good = answers(machine, [0.1] * 8), answers(machine, [0.95] * 5)
    assert min(bad[1:]) >= 0.95
    assert max(good[:2]) >= 1.5
    assert min(good[2:]) >= 3
