"""How many rows a block gets next: measured acceptance against measured cost, with plain decoding among the choices.

Everything here is a value: `decide` and `learn` map a frozen `Table` to the next, so scripted curves can drive them.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from statistics import median_low

ROWS = (1, 3, 4, 5, 9, 16)
"""Row counts just below the boundaries of Metal's matrix and attention kernels; 1 is plain decoding."""
FIRST_TRY = 4
PRIOR = 0.7
RECENT = 0.1
REMEMBERED = 31
EXPLORE = 0.02
PROBE_ROUNDS, PLAIN_PROBE_ROUNDS = 2, 3
"""A plain round tells its cost between two others; a block at once, unless its drafts had to catch up first."""
DEAREST = 8.0
MARGIN = 1.03

MEASURING = "the cost of plain decoding is measured first"
SLOWER = "plain decoding was measured to be faster here"


def candidates(block_size: int) -> tuple[int, ...]:
    """The row counts worth choosing from for a speculator whose widest block has `block_size` rows."""
    return tuple(sorted({rows for rows in ROWS if rows <= block_size} | {block_size, 1}))


@dataclass(frozen=True)
class Acceptance:
    """By depth: how often a draft agrees, given that all before it in its block did (recent rounds weigh most)."""

    rates: tuple[float, ...] = ()
    seen: tuple[int, ...] = ()

    def rate(self, depth: int) -> float:
        """The estimate for a depth; unseen ones are like the deepest seen."""
        if depth < len(self.rates):
            return self.rates[depth]
        return self.rates[-1] if self.rates else PRIOR

    def expected(self, rows: int) -> float:
        """Tokens that a block of up to 64 rows is expected to commit, the target's own included."""
        return self._expected[rows - 1]

    @cached_property
    def _expected(self) -> tuple[float, ...]:
        deeper = repeat(self.rate(len(self.rates)), 63 - len(self.rates))
        return tuple(accumulate(accumulate(chain(self.rates, deeper), operator.mul, initial=1.0)))

    def after(self, drafted: int, agreed: int) -> "Acceptance":
        """The estimate after a block of `drafted` drafts of which the first `agreed` agreed."""
        rates, seen = list(self.rates), list(self.seen)
        for depth in range(min(agreed + 1, drafted)):
            if depth == len(rates):
                rates.append(self.rate(depth))
                seen.append(0)
            rates[depth] += ((depth < agreed) - rates[depth]) * max(RECENT, 1 / (seen[depth] + 2))
            seen[depth] += 1
        return Acceptance(tuple(rates), tuple(seen))

    def handed_on(self) -> "Acceptance":
        """The estimate as a start for another request: the same, but quicker to change."""
        return replace(self, seen=tuple(min(count, 4) for count in self.seen))


@dataclass(frozen=True)
class Costs:
    """Seconds a round takes, by its number of target rows: rounds without and with drafts.

    Medians of recent rounds: a round that someone else's work slowed down must count neither way.
    """

    plain: Mapping[int, float] = field(default_factory=dict)
    block: Mapping[int, float] = field(default_factory=dict)
    recent: Mapping[tuple[int, bool], tuple[float, ...]] = field(default_factory=dict)

    def seconds(self, rows: int, drafting: bool) -> float | None:
        """The estimate, None when nothing comparable was measured: plain rounds exactly, others along a line."""
        if not drafting:
            return self.plain.get(rows)
        if not self.block:
            return None
        narrowest = min(self.block)
        below = {r: cost for r, cost in self.plain.items() if r < narrowest}
        return _along({**below, **self.block}, rows)

    def after(self, rows: int, drafting: bool, seconds: float) -> "Costs":
        """With one more round measured."""
        own = (*self.recent.get((rows, drafting), ()), seconds)[-REMEMBERED:]
        recent, usual = {**self.recent, (rows, drafting): own}, median_low(own)
        if drafting:
            return Costs(self.plain, {**self.block, rows: usual}, recent)
        return Costs({**self.plain, rows: usual}, self.block, recent)


@dataclass(frozen=True)
class Wish:
    """What one session may do next: its acceptance, the most rows it can use, and its width if that is not free."""

    acceptance: Acceptance
    most: int
    fixed: int | None = None


@dataclass(frozen=True)
class Table:
    """What was learned on this machine; it outlives the sessions."""

    widths: tuple[int, ...]
    costs: Costs = field(default_factory=Costs)
    acceptance: Acceptance = field(default_factory=Acceptance)
    credit: float = 0.0
    """Seconds that may be spent on trying something else."""
    price: float = 1.0
    """How many times over a probe must be paid for; it doubles when one changed nothing."""
    settled: int = 1
    probing: int | None = None
    probes_left: int = 0
    chosen_at: Mapping[int, int] = field(default_factory=dict)
    decisions: int = 0


@dataclass(frozen=True)
class Decision:
    """Rows for each session, in the order of the wishes; and, where it is plain, why."""

    rows: tuple[int, ...]
    plain_because: str | None


def decide(table: Table, wishes: Sequence[Wish]) -> tuple[Decision, Table]:
    """Choose the rows that promise the most tokens a second; now and then spend credit on a choice grown stale."""
    if all(wish.fixed is not None or wish.most == 1 for wish in wishes):
        return Decision(_uniform(wishes, 1), None), table
    if _seconds(table, _uniform(wishes, 1)) is None:
        return Decision(_uniform(wishes, 1), MEASURING), table
    if not table.costs.block:
        first = next((rows for rows in table.widths if rows >= FIRST_TRY), table.widths[-1])
        return Decision(_uniform(wishes, first), None), _chosen(table, first)
    if table.probing is not None and table.probes_left > 0:
        left = replace(table, probes_left=table.probes_left - 1)
        return _decision(_uniform(wishes, table.probing)), _chosen(left, table.probing)
    rates = {width: _rate(table, wishes, _uniform(wishes, width)) for width in table.widths}
    best = max(rates, key=lambda width: rates[width] * (MARGIN if width == 1 else 1))
    table = _after_probe(table, best)
    probe = _probe(table, wishes, rates, best)
    if probe is not None:
        spent = replace(table, credit=0.0, probing=probe, probes_left=_probe_rounds(probe) - 1)
        return _decision(_uniform(wishes, probe)), _chosen(spent, probe)
    return _decision(_improved(table, wishes, _uniform(wishes, best))), _chosen(table, best)


def learn(table: Table, rows: int, *, drafting: bool, seconds: float, steady: bool) -> Table:
    """Take in one round without prefill; a `steady` one tells what such rounds cost, and ends a probe."""
    if steady and drafting and table.probing is not None:
        table = replace(table, probes_left=0)
    costs = table.costs.after(rows, drafting, seconds) if steady else table.costs
    usual = costs.seconds(rows, drafting)
    return replace(
        table, costs=costs, credit=table.credit + EXPLORE * min(seconds, seconds if usual is None else usual)
    )


def accept(table: Table, drafted: int, agreed: int) -> Table:
    """Take in one block's outcome, as a start for requests to come."""
    return replace(table, acceptance=table.acceptance.after(drafted, agreed))


def _uniform(wishes: Iterable[Wish], width: int) -> tuple[int, ...]:
    return tuple(min(wish.most, width if wish.fixed is None else wish.fixed) for wish in wishes)


def _decision(rows: tuple[int, ...]) -> Decision:
    return Decision(rows, SLOWER if max(rows) == 1 else None)


def _chosen(table: Table, width: int) -> Table:
    decisions = table.decisions + 1
    return replace(table, decisions=decisions, chosen_at={**table.chosen_at, width: decisions})


def _seconds(table: Table, rows: tuple[int, ...]) -> float | None:
    return table.costs.seconds(sum(rows), max(rows) > 1)


def _rate(table: Table, wishes: Sequence[Wish], rows: tuple[int, ...]) -> float:
    """Expected tokens a second."""
    seconds = _seconds(table, rows)
    if seconds is None:
        return 0.0
    return sum(wish.acceptance.expected(own) for wish, own in zip(wishes, rows, strict=True)) / seconds


def _improved(table: Table, wishes: Sequence[Wish], rows: tuple[int, ...]) -> tuple[int, ...]:
    """Let each free session in turn move to the width that helps all of them most."""
    if len(rows) == 1 or max(rows) == 1:
        return rows
    for place, wish in enumerate(wishes):
        if wish.fixed is None:
            options = [(*rows[:place], min(width, wish.most), *rows[place + 1 :]) for width in table.widths]
            rows = max([rows, *options], key=lambda option: _rate(table, wishes, option))
    return rows


def _after_probe(table: Table, best: int) -> Table:
    if table.probing is None:
        return table if table.settled == best else replace(table, settled=best)
    price = 1.0 if best != table.settled else min(table.price * 2, DEAREST)
    return replace(table, probing=None, price=price, settled=best)


def _probe(table: Table, wishes: Sequence[Wish], rates: Mapping[int, float], best: int) -> int | None:
    """The other width that was not tried for longest, once the credit covers what trying it is expected to lose."""
    others = sorted((width for width in rates if width != best and rates[width]), key=lambda width: -rates[width])
    # What is far from the best is not worth its price, except as the one way back from plain decoding.
    near = [width for width in others if rates[width] > rates[best] / 2] or others[:1]
    if not near:
        return None
    width = min(near, key=lambda width: table.chosen_at.get(width, 0))
    seconds = (_seconds(table, _uniform(wishes, width)) or 0.0) * _probe_rounds(width)
    loss = seconds * max(1 - rates[width] / rates[best], 0.1)
    return width if loss * table.price <= table.credit else None


def _probe_rounds(width: int) -> int:
    return PLAIN_PROBE_ROUNDS if width == 1 else PROBE_ROUNDS


def _along(points: Mapping[int, float], rows: int) -> float:
    """Piecewise linear through the points; beyond them, the nearest segment goes on, never falling with more rows."""
    if rows in points:
        return points[rows]
    known = sorted(points)
    if len(known) == 1:
        return points[known[0]] * max(rows / known[0], 1)
    right = next((i for i, r in enumerate(known) if r > rows), len(known) - 1)
    low, high = known[max(right - 1, 0)], known[max(right, 1)]
    slope = (points[high] - points[low]) / (high - low)
    nearest = low if abs(rows - low) < abs(rows - high) else high
    return (
        points[nearest] + max(slope, 0.0) * (rows - nearest)
        if not low < rows < high
        else _between(points[low], points[high], (rows - low) / (high - low))
    )


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share
