from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from random import Random
from statistics import median

import pytest

from models.decode.batch import Batch
from models.decode.reading import FEWEST, FIRST, MEASURED, RENEWED, SLOWEST, Others, Reading, portions
from models.decode.session import Session
from tests.decode.scripted import ScriptedTarget, asked, plainly, run_all, text

Curve = Callable[[int], float]


def linear(rows: int) -> float:
    return 0.4 + 0.6 * rows


def bandwidth(rows: int) -> float:
    return 0.95 + 0.05 * rows


def experts(rows: int) -> float:
    """Few rows already touch most of a mixture's experts; then rows are cheap."""
    return 1 + 2 * (1 - 0.97**rows) + 0.01 * rows


def cliff(rows: int) -> float:
    """Beyond 15 rows another kernel, and several times the time at once."""
    return 0.95 + 0.05 * rows + (4.0 if rows > 15 else 0.0)


@dataclass
class Machine:
    """Rounds of sessions that decode, beside a prompt, on a machine with a known curve."""

    curve: Curve
    decoding: int = 2
    most: int = 512
    noise: float = 0.0
    reading: Reading = field(default_factory=Reading)
    random: Random = field(default_factory=lambda: Random(3))
    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def others(self) -> Others:
        return Others.of(self.decoding, drafting=False)

    @property
    def usual(self) -> float:
        return self.curve(self.decoding)

    def read(self, tokens: int) -> None:
        """Rounds until so many tokens of prompts are read."""
        self.rows, self.seconds = [], []
        while sum(self.rows) < tokens:
            self._round(self.reading.rows(self.others, self.most))

    def decode(self, rounds: int) -> None:
        for _ in range(rounds):
            self._round(0)

    def _round(self, rows: int) -> None:
        took = self.curve(self.decoding + rows) * (1 + self.noise * self.random.random())
        self.reading = self.reading.after(self.others, rows, took)
        self.rows.append(rows)
        self.seconds.append(took)


@pytest.mark.parametrize("curve", [bandwidth, experts, cliff])
@pytest.mark.parametrize("decoding", [1, 2, 8])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_beside_a_long_prompt_rounds_take_about_twice_the_usual(curve: Curve, decoding: int, noise: float) -> None:
    machine = Machine(curve, decoding, noise=noise)
    machine.decode(20)
    machine.read(3000)
    usual = machine.usual * (1 + noise / 2)
    assert median(machine.seconds) <= 2.2 * usual
    assert sum(took > 3 * usual for took in machine.seconds) <= len(machine.seconds) / 30
    assert sum(machine.seconds) <= 3.2 * sum(curve(512) for _ in range(6)) + 2.5 * usual * len(machine.seconds)


@pytest.mark.parametrize("decoding", [1, 2, 8])
def test_where_rows_are_dear_few_are_read_and_reading_goes_on(decoding: int) -> None:
    machine = Machine(linear, decoding)
    machine.decode(20)
    machine.read(400)
    assert set(machine.rows[2:]) <= {0, 2, 3, 4, 6, 8, 12}
    assert sum(machine.seconds) <= 4 * (machine.usual * len(machine.rows))


def test_where_rows_are_nearly_free_it_soon_reads_whole_chunks() -> None:
    machine = Machine(lambda rows: 1.0 + rows / 1000)
    machine.decode(20)
    machine.read(3000)
    assert machine.rows[:16] == [size for size in (16, 32, 64, 128, 256) for _ in range(MEASURED)] + [512]
    machine.read(5000)
    assert max(machine.seconds) <= 2 * machine.usual
    assert machine.rows.count(512) >= 8


def test_beyond_a_cliff_it_looks_rarely() -> None:
    machine = Machine(cliff)
    machine.decode(20)
    machine.read(9000)
    assert 0 < sum(rows > 13 for rows in machine.rows) <= len(machine.rows) / 30
    assert median(machine.rows) == 12


def test_what_is_usual_is_measured_before_anything_is_read_and_now_and_then_again() -> None:
    machine = Machine(bandwidth)
    machine.read(2000)
    assert machine.rows[: 3 * MEASURED + 1] == [0, 0, FEWEST] * MEASURED + [2 * FEWEST]
    again = [place for place, rows in enumerate(machine.rows) if not rows][2 * MEASURED :]
    assert again
    assert {b - a for a, b in pairwise(again)} <= {1, RENEWED + 1}


def test_a_context_that_grows_slows_reading_no_further_than_it_slows_the_others() -> None:
    slow = Machine(bandwidth)
    slow.decode(20)
    slow.read(2000)
    before = median(slow.rows)
    slow.curve = lambda rows: 5 * bandwidth(rows)
    slow.read(20_000)
    slow.read(2000)
    assert median(slow.rows) >= before / 2


def test_one_round_that_was_held_up_does_not_stop_a_prompt() -> None:
    machine = Machine(bandwidth)
    machine.decode(20)
    machine.read(1000)
    before = median(machine.rows)
    held = machine.reading.after(machine.others, machine.rows[-1], 100.0)
    assert held.rows(machine.others, 512) >= before / 2
    early = Reading({machine.others: (1.0,) * 5}).after(machine.others, FIRST, 100.0)
    machine.reading = early
    machine.read(3000)
    assert machine.rows[0] == FEWEST
    assert median(machine.rows[-20:]) >= before / 2


def test_the_more_wait_for_each_that_decodes_the_more_is_read_up_to_a_bound() -> None:
    extra = {rows: (rows / 10,) * MEASURED for rows in (8, 16, 32, 64, 128)}
    known = Reading({ONE: (1.0,) * MEASURED}, extra, dict.fromkeys(extra, 0))
    asked = [known.rows(ONE, 512, crowd) for crowd in (0.2, 1.0, 2.0, 3.0, 100.0)]
    assert asked == [12, 12, 24, 24, 24]
    assert asked[-1] / 10 <= SLOWEST - 1


def test_little_is_asked_of_small_chunks() -> None:
    known = Reading({ONE: (1.0,) * 5})
    assert [known.rows(ONE, most) for most in (3, 1, 512)] == [3, 1, FIRST]


def test_nothing_is_read_beside_what_was_never_measured() -> None:
    known = Reading({ONE: (1.0,) * 5})
    assert known.rows(Others.of(2, drafting=False), 512) == known.rows(Others.of(1, drafting=True), 512) == 0


@pytest.mark.parametrize(
    ("needs", "rows", "wanted"),
    [
        ([], 16, []),
        ([40], 16, [16]),
        ([3], 16, [3]),
        ([40, 50], 16, [8, 8]),
        ([400, 2], 16, [14, 2]),
        ([400, 90, 3], 16, [8, 5, 3]),
        ([2, 90, 3], 16, [2, 11, 3]),
        ([9, 9], 1, [1, 0]),
        ([9, 9], 0, [0, 0]),
    ],
)
def test_the_oldest_prompt_gets_half_at_least_and_a_short_one_does_not_wait(
    needs: list[int], rows: int, wanted: list[int]
) -> None:
    assert portions(needs, rows) == wanted


ONE = Others.of(1, drafting=False)


class Clock:
    """Time that passes as a target with a known curve would take it."""

    def __init__(self, target: ScriptedTarget, curve: Curve) -> None:
        self._target, self._curve = target, curve

    def __call__(self) -> float:
        return sum(self._curve(rows) for _, rows in self._target.passes)


def test_in_a_batch_others_go_on_while_a_long_prompt_is_read_and_texts_stay_the_same() -> None:
    target = ScriptedTarget(remembered=3)
    batch = Batch(target, None, clock=Clock(target, bandwidth))
    others = [asked([place], max_tokens=150) for place in (4, 5)]
    sessions = [batch.add(request) for request in others]
    got: dict[Session, list[int]] = {session: [] for session in sessions}
    for _ in range(20):
        for update in batch.step():
            got[update.session] += update.ids
    long, short = asked([1, 2, 3] * 300, max_tokens=5), asked([7] * 20, max_tokens=5)
    first = len(target.passes)
    late = [batch.add(request) for request in (long, short)]
    for session, updates in run_all(batch).items():
        got.setdefault(session, []).extend(text(updates))
    assert [got[session] for session in (*sessions, *late)] == [plainly(r, target) for r in (*others, long, short)]
    rows = [rows for _, rows in target.passes[first:] if rows > 4]
    assert max(rows) <= 2 + 40
    assert sum(rows) >= 900
    read = list(accumulate(rows))
    assert next(place for place, count in enumerate(read) if count > 60) < len(rows) / 2
