"""What each session's next block is: measured acceptance against measured cost, plain decoding among the choices.

Everything here is a value: `decide` and `learn` map a frozen `Table` to the next, so scripted curves can drive them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from models.decode.acceptance import Record, Subject
from models.decode.blocks import PLAIN, PLAINLY, Arm, Blocks, Choice, Offer, Wish, blocks_of, kind_of
from models.decode.costs import KINDS, Costs, Kind, Prices
from models.decode.reading import Reading

ROWS = (1, 3, 4, 5, 9, 16)
"""Row counts just below the boundaries of Metal's matrix and attention kernels; 1 is plain decoding."""
FIRST_TRY = 4
"""Rows of the first block of a kind, or the next wider there is; the widest where all are narrower."""
EXPLORE = 0.02
"""The share of decoding time that is credited for trying something else."""
PROBE_ROUNDS, PLAIN_PROBE_ROUNDS = 2, 3
"""A plain round tells its cost between two others; a block at once, unless its drafts had to catch up first."""
DEAREST = 2.0
"""How many times over a probe must be paid for, at most."""
MARGIN = 1.03
"""Blocks must promise so many times what plain decoding does."""
LENT = 2.0
"""Plain rounds that may be lost before they are earned, where a new answer may draft otherwise than the ones before."""

MEASURING = "the cost of plain decoding is measured first"
SLOWER = "plain decoding was measured to be faster here"


def candidates(block_size: int) -> tuple[int, ...]:
    """The row counts worth choosing from when the widest block has `block_size` rows."""
    return tuple(sorted({rows for rows in ROWS if rows <= block_size} | {block_size, 1}))


@dataclass(frozen=True)
class Table:
    """What was learned on this machine; it outlives the sessions."""

    widths: tuple[int, ...]
    costs: Costs = field(default_factory=Costs)
    record: Record = field(default_factory=Record)
    reading: Reading = field(default_factory=Reading)
    """What prompts cost that are read beside others."""
    credit: float = 0.0
    """Seconds that may be spent on trying something else."""
    price: float = 1.0
    """How many times over a probe must be paid for; it doubles when one changed nothing."""
    settled: Arm = PLAINLY
    probing: Arm | None = None
    probes_left: int = 0
    chosen_at: Mapping[Arm, int] = field(default_factory=dict)
    decisions: int = 0


@dataclass(frozen=True)
class Decision:
    """A block for each session, in the order of the wishes; and, where it is plain, why."""

    choices: tuple[Choice, ...]
    plain_because: str | None = None

    @property
    def rows(self) -> tuple[int, ...]:
        """How wide each is."""
        return tuple(choice.rows for choice in self.choices)


def decide(table: Table, wishes: Sequence[Wish], place: int = 0) -> tuple[Decision, Table]:
    """Choose what promises the most tokens a second in the context bucket `place`.

    Now and then credit is spent on a choice grown stale.
    """
    plans = blocks_of(table.widths, wishes)
    if len(plans) == 1:
        return Decision(plans[PLAINLY].choices), table
    prices = table.costs.at(place)
    if _seconds(prices, plans[PLAINLY]) is None:
        return Decision(plans[PLAINLY].choices, MEASURING), table
    untried = _untried(table, plans)
    if untried is not None:
        return Decision(plans[untried].choices), _chosen(table, untried)
    if table.probing in plans and table.probes_left > 0:
        left = replace(table, probes_left=table.probes_left - 1)
        return _decision(plans[table.probing].choices), _chosen(left, table.probing)
    rates = {arm: _rate(prices, plan) for arm, plan in plans.items()}
    best = max(rates, key=lambda arm: rates[arm] * (MARGIN if arm == PLAINLY else 1))
    table = _after_probe(table, best)
    probe = _probe(table, prices, plans, rates, best)
    if probe is not None:
        left = min(table.credit - _loss(prices, plans, rates, probe, best), 0.0)
        spent = replace(table, credit=left, probing=probe, probes_left=_probe_rounds(probe) - 1)
        return _decision(plans[probe].choices), _chosen(spent, probe)
    return _decision(_improved(table.widths, prices, wishes, plans[best].choices)), _chosen(table, best)


def learn(table: Table, kind: Kind, rows: int, *, seconds: float, steady: bool, place: int = 0) -> Table:
    """Take in one round without prefill; a `steady` one tells what such rounds cost, and ends a probe."""
    ends = steady and kind != "plain" and table.probing is not None
    costs = table.costs.after(kind, rows, place, seconds) if steady else table.costs
    # A round that took unusually long is no reason to spend more on trying.
    worth = min(seconds, costs.usual.get((kind, place), {}).get(rows, seconds))
    left = 0 if ends else table.probes_left
    return replace(table, costs=costs, credit=table.credit + EXPLORE * worth, probes_left=left)


def accept(table: Table, subject: Subject, drafted: int, agreed: int) -> Table:
    """Take in one block's outcome, as a start for requests to come."""
    return replace(table, record=table.record.after(subject, drafted, agreed))


def _decision(choices: tuple[Choice, ...]) -> Decision:
    return Decision(choices, SLOWER if kind_of(choices) == "plain" else None)


def _untried(table: Table, plans: Mapping[Arm, Blocks]) -> Arm | None:
    """A narrow block of a kind whose cost nothing tells yet."""
    for kind in ("drafted", "given"):
        told = table.costs.known(kind) or (kind == "given" and table.costs.known("drafted"))
        arms = sorted(arm.rows for arm in plans if arm.kind == kind)
        if arms and not told:
            return Arm(kind, next((rows for rows in arms if rows >= FIRST_TRY), arms[-1]))
    return None


def _chosen(table: Table, arm: Arm) -> Table:
    decisions = table.decisions + 1
    return replace(table, decisions=decisions, chosen_at={**table.chosen_at, arm: decisions})


def _seconds(prices: Prices, plan: Blocks) -> float | None:
    return prices.seconds(plan.kind, plan.rows)


def _rate(prices: Prices, plan: Blocks) -> float:
    """Expected tokens a second."""
    seconds = _seconds(prices, plan)
    return 0.0 if seconds is None else plan.expected / seconds


def _improved(
    widths: tuple[int, ...], prices: Prices, wishes: Sequence[Wish], choices: tuple[Choice, ...]
) -> tuple[Choice, ...]:
    """Let each free session in turn move to the block that helps all of them most."""
    if len(wishes) == 1 or kind_of(choices) == "plain":
        return choices
    now = list(choices)
    for place, wish in enumerate(wishes):
        if wish.fixed is None and wish.offers:
            others = _Sum.of(now[:place] + now[place + 1 :])
            blocks = [Choice.of(offer, rows) for offer in wish.offers for rows in _fitting(widths, offer)]
            now[place] = max([now[place], PLAIN, *blocks], key=lambda block: others.rate_with(block, prices))
    return tuple(now)


def _fitting(widths: tuple[int, ...], offer: Offer) -> Iterable[int]:
    return dict.fromkeys(min(rows, offer.most) for rows in widths[1:])


class _Sum(NamedTuple):
    """What a round's blocks come to, for trying one more beside them."""

    rows: int
    expected: float
    kind: Kind

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> "_Sum":
        return cls(sum(c.rows for c in choices), sum(c.expected for c in choices), kind_of(choices))

    def rate_with(self, block: Choice, prices: Prices) -> float:
        """Expected tokens a second with this block, too."""
        own = "plain" if block.offer is None else "drafted" if block.offer.drawn else "given"
        kind = max(self.kind, own, key=KINDS.index)
        seconds = prices.seconds(kind, self.rows + block.rows)
        return 0.0 if seconds is None else (self.expected + block.expected) / seconds


def _after_probe(table: Table, best: Arm) -> Table:
    if table.probing is None:
        return table if table.settled == best else replace(table, settled=best)
    price = 1.0 if best != table.settled else min(table.price * 2, DEAREST)
    return replace(table, probing=None, price=price, settled=best)


def _probe(
    table: Table,
    prices: Prices,
    plans: Mapping[Arm, Blocks],
    rates: Mapping[Arm, float],
    best: Arm,
) -> Arm | None:
    """The other arm that was not tried for longest, once the credit covers what trying it is expected to lose."""
    others = sorted((arm for arm in rates if arm != best and rates[arm]), key=lambda arm: -rates[arm])
    # What is far from the best is not worth its price, except as the one way back from plain decoding.
    near = [arm for arm in others if rates[arm] > rates[best] / 2] or others[:1]
    if not near:
        return None
    arm = near[0] if best == PLAINLY else min(near, key=lambda arm: table.chosen_at.get(arm, 0))
    loss = _loss(prices, plans, rates, arm, best)
    lent = LENT * (_seconds(prices, plans[PLAINLY]) or 0.0)
    if best == PLAINLY and loss <= table.credit + lent and _fresh(plans[arm].choices):
        return arm
    return arm if loss * table.price <= table.credit else None


def _loss(prices: Prices, plans: Mapping[Arm, Blocks], rates: Mapping[Arm, float], arm: Arm, best: Arm) -> float:
    """Seconds that trying an arm is expected to lose."""
    seconds = (_seconds(prices, plans[arm]) or 0.0) * _probe_rounds(arm)
    return seconds * max(1 - rates[arm] / rates[best], 0.1)


def _fresh(choices: Sequence[Choice]) -> bool:
    return any(choice.offer is not None and choice.offer.fresh for choice in choices)


def _probe_rounds(arm: Arm) -> int:
    return PLAIN_PROBE_ROUNDS if arm == PLAINLY else PROBE_ROUNDS
