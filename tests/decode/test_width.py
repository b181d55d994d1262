from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from models.decode.width import MEASURING, SLOWER, Acceptance, Costs, Table, Wish, accept, candidates, decide, learn

Curve = Callable[[int, bool], float]


def linear(rows: int, drafting: bool) -> float:
    """Every row costs as much as a plain step, and drafting a third of one more."""
    return rows + 0.3 * drafting


def bundled(rows: int, drafting: bool) -> float:
    """What MLX's own BLAS measured on the CPU: 8 rows cost five to six steps."""
    return 0.4 + 0.6 * rows + 0.3 * drafting


def bandwidth(rows: int, drafting: bool) -> float:
    """Rows are nearly free, as with a BLAS that reads weights once."""
    return 0.95 + 0.05 * rows + 0.3 * drafting


def stepped(rows: int, drafting: bool) -> float:
    """Five rows are cheap, more are not (attention kernels change)."""
    return 1.0 + 0.1 * rows + 0.2 * drafting + 2.5 * (rows > 5)


@dataclass
class Machine:
    """A session decoded on a machine with a known curve, by a drafter of known skill."""

    curve: Curve
    rate: float
    table: Table = field(default_factory=lambda: Table(candidates(8)))
    noise: float = 0.0
    acceptance: Acceptance = field(default_factory=Acceptance)
    random: Random = field(default_factory=lambda: Random(1))
    latest: bool | None = None
    widths: list[int] = field(default_factory=list)

    def decode(self, tokens: int) -> float:
        """Seconds for so many tokens, in plain steps."""
        seconds, done = 0.0, 0
        while done < tokens:
            decision, self.table = decide(self.table, [Wish(self.acceptance, min(8, tokens - done))])
            (rows,) = decision.rows
            self.widths.append(rows)
            agreed = next((depth for depth in range(rows - 1) if self.random.random() >= self.rate), rows - 1)
            took = self.curve(rows, rows > 1) * (1 + self.noise * self.random.random())
            steady, self.latest = rows > 1 or self.latest is False, rows > 1
            self.table = learn(self.table, rows, drafting=rows > 1, seconds=took, steady=steady)
            if rows > 1:
                self.acceptance = self.acceptance.after(rows - 1, agreed)
                self.table = accept(self.table, rows - 1, agreed)
            seconds, done = seconds + took, done + agreed + 1
        return seconds

    def plain(self, tokens: int) -> float:
        return tokens * self.curve(1, False) * (1 + self.noise / 2)

    def best_fixed(self, tokens: int) -> float:
        """The same with the best width known beforehand."""
        expected = Acceptance((self.rate,), (1,)).expected
        rates = {w: expected(w) / self.curve(w, w > 1) for w in self.table.widths}
        return tokens / max(rates.values()) * (1 + self.noise / 2)


@pytest.mark.parametrize("curve", [linear, bundled, bandwidth, stepped])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_is_never_much_slower_than_plain_decoding_and_not_far_from_the_best_width(
    curve: Curve, rate: float, noise: float
) -> None:
    machine = Machine(curve, rate, noise=noise)
    seconds = machine.decode(2000)
    assert seconds <= machine.plain(2000) / 0.95
    assert seconds <= machine.best_fixed(2000) / 0.88


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_where_rows_are_costly_it_parks_within_a_few_rounds(rate: float) -> None:
    machine = Machine(linear, rate)
    machine.decode(120)
    assert sum(rows > 1 for rows in machine.widths) <= 6
    assert machine.decode(200) <= 200 / 0.95


def test_what_was_learned_serves_the_next_session() -> None:
    first = Machine(linear, 0.0)
    first.decode(100)
    second = Machine(linear, 0.0, table=first.table, acceptance=first.table.acceptance.handed_on())
    assert second.decode(40) <= 40 / 0.9
    quick = Machine(bandwidth, 0.9)
    quick.decode(100)
    again = Machine(bandwidth, 0.9, table=quick.table, acceptance=quick.table.acceptance.handed_on())
    again.decode(20)
    assert again.widths[0] == 8


def test_it_comes_back_when_drafts_become_good() -> None:
    machine = Machine(bandwidth, 0.02)
    machine.decode(400)
    assert machine.widths[-20:].count(1) >= 16
    machine.rate = 0.9
    machine.decode(1500)
    assert machine.widths[-50:].count(8) >= 45


def test_it_stops_when_drafts_become_bad() -> None:
    machine = Machine(bundled, 0.95)
    machine.decode(500)
    machine.rate, machine.widths = 0.1, []
    machine.decode(300)
    assert sum(rows > 1 for rows in machine.widths) <= 30


def test_one_slow_round_does_not_park_it() -> None:
    machine = Machine(bandwidth, 0.9)
    machine.decode(300)
    slow = learn(machine.table, 8, drafting=True, seconds=100.0, steady=True)
    decision, _ = decide(slow, [Wish(machine.acceptance, 8)])
    assert decision.rows == (8,)


def test_plain_is_measured_first_then_a_narrow_block() -> None:
    table = Table(candidates(16))
    wish = Wish(Acceptance(), 16)
    decision, table = decide(table, [wish])
    assert (decision.rows, decision.plain_because) == ((1,), MEASURING)
    table = learn(table, 1, drafting=False, seconds=1.0, steady=True)
    decision, table = decide(table, [wish])
    assert (decision.rows, decision.plain_because) == ((4,), None)
    table = learn(table, 4, drafting=True, seconds=9.0, steady=True)
    decision, table = decide(table, [wish])
    assert (decision.rows, decision.plain_because) == ((1,), SLOWER)


def test_unsteady_rounds_teach_no_cost() -> None:
    table = learn(Table(candidates(8)), 1, drafting=False, seconds=1.0, steady=False)
    assert table.costs == Costs()
    assert table.credit > 0


def test_fixed_widths_and_small_budgets_are_kept() -> None:
    table = Table(candidates(8))
    wishes = [Wish(Acceptance(), 8, fixed=8), Wish(Acceptance(), 3, fixed=8), Wish(Acceptance(), 1)]
    decision, same = decide(table, wishes)
    assert (decision.rows, same) == ((8, 3, 1), table)


def test_sessions_with_good_drafts_get_wide_blocks_beside_sessions_with_bad_ones() -> None:
    costs = Costs(plain={2: 2.0, 1: 1.0}, block={2: 2.2, 9: 5.0, 16: 8.5})
    table = Table(candidates(8), costs=costs)
    good, bad = Acceptance((0.97,), (50,)), Acceptance((0.05,), (50,))
    decision, _ = decide(table, [Wish(good, 8), Wish(bad, 8)])
    assert decision.rows == (8, 1)


def test_probes_get_rarer_as_they_fail() -> None:
    machine = Machine(bundled, 0.1)
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


def test_expected_tokens_follow_acceptance_by_depth() -> None:
    acceptance = Acceptance((0.5, 0.25), (9, 9))
    assert acceptance.expected(1) == 1
    assert acceptance.expected(2) == 1.5
    assert acceptance.expected(3) == 1.625
    assert acceptance.expected(4) == 1.625 + 0.5 * 0.25 * 0.25


def test_acceptance_is_learned_up_to_the_first_refusal() -> None:
    acceptance = Acceptance()
    for _ in range(200):
        acceptance = acceptance.after(5, 2)
    assert acceptance.rates[0] > 0.99
    assert acceptance.rates[1] > 0.99
    assert acceptance.rates[2] < 0.01
    assert len(acceptance.rates) == 3


def test_costs_between_and_beyond_measured_rows_lie_on_lines() -> None:
    costs = Costs(plain={1: 1.0}, block={4: 2.0, 8: 3.0})
    assert costs.seconds(1, False) == 1.0
    assert costs.seconds(3, False) is None
    assert costs.seconds(4, True) == 2.0
    assert costs.seconds(6, True) == 2.5
    assert costs.seconds(3, True) == pytest.approx(1 + 2 / 3)
    assert costs.seconds(16, True) == 5.0
    assert replace(costs, block={}).seconds(4, True) is None
    assert Costs(block={4: 2.0}).seconds(8, True) == 4.0
