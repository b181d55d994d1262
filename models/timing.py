"""What a round costs on this machine, on the loaded pair: seconds by number of rows and length of the context.

Method: real rounds of the decoding loop over a text that is fed to both networks; each keeps its first row only, so a
context hardly grows while it is measured.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median_low

import mlx.core as mx

from models.contract import LayerCache, Speculator, Target
from models.decode.costs import Costs, Kind, bucket
from models.decode.session import Sampling, Tapped
from models.decode.speculate import Part, Round, absorb, run

CHUNK = 512
"""Prompt tokens in one pass, as the server reads them."""
GREEDY = Sampling()


@dataclass(frozen=True)
class Cost:
    """Rounds of one kind."""

    rows: int
    """Target rows, the anchor's included; 1 is a plain round."""
    context: int
    """Tokens before the round."""
    seconds: float
    """The median."""
    quickest: float
    slowest: float

    @property
    def kind(self) -> Kind:
        """Whether the speculator drafts in it."""
        return "plain" if self.rows == 1 else "drafted"


def costs_of(found: Sequence[Cost]) -> Costs:
    """The measurements as what the width's controller reads."""
    costs = Costs()
    for cost in found:
        costs = costs.after(cost.kind, cost.rows, bucket(cost.context), cost.seconds)
    return costs


@dataclass
class _Timeline:
    """One text in both networks."""

    target: Target
    speculator: Speculator | None
    text: Iterator[int]
    """Ids to feed, without end."""
    caches: Sequence[LayerCache]
    context: Sequence[LayerCache]
    length: int = 0
    waiting: list[Tapped] = field(default_factory=list)

    def read(self, length: int) -> None:
        """Feed text until so many tokens are behind."""
        while self.length < length:
            ids = tuple(next(self.text) for _ in range(min(CHUNK, length - self.length)))
            self.kept(self.enqueued(Part(self.caches, self.context, GREEDY, self.length, ids)), len(ids))
            self.catch_up()
            mx.eval([array for cache in self.caches for array in cache.arrays])
        mx.clear_cache()

    def enqueued(self, part: Part, before: Round | None = None) -> Round:
        """One round, under way."""
        tapped = self.speculator is not None
        carried = None if before is None else before.drawn
        found = run(self.target, self.speculator, [part], carried=carried, tapped=tapped)
        mx.async_eval(found.packed)
        return found

    def kept(self, found: Round, rows: int) -> None:
        """The first `rows` rows of a round stay."""
        self.length += rows
        if self.speculator is not None:
            self.waiting.append(Tapped(found.taps, 0, rows))

    def catch_up(self) -> None:
        """Take up in the speculator's context what waits."""
        if self.speculator is not None and self.waiting:
            absorb(self.speculator, [(self.context, self.waiting)])
            self.waiting = []
            mx.async_eval([array for cache in self.context for array in cache.arrays])


def calibrate(
    target: Target,
    speculator: Speculator | None,
    text: Sequence[int],
    *,
    widths: Sequence[int],
    contexts: Sequence[int],
    repeats: int = 7,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> list[Cost]:
    """Time rounds of every width at every context.

    Args:
        target: evaluated, on the thread that loaded it.
        speculator: what drafts; without it only plain rounds are timed.
        text: ids to fill contexts with, not empty; repeated as needed.
        widths: rows of a round, 1 for plain decoding.
        contexts: tokens before a round.
        repeats: rounds of each kind; the first of each is not counted.
        watch: told of the measurements done and all of them.

    Returns:
        By context and width, in rising order.
    """
    usable = sorted(rows for rows in widths if rows == 1 or speculator is not None)
    slack = max(2 * max(usable), repeats + 2)
    ids = (text[place % len(text)] for place in count())
    context = [] if speculator is None else speculator.make_context()
    line, found = _Timeline(target, speculator, ids, target.make_caches(slack), context), list[Cost]()
    total = len(usable) * len(contexts)
    for length in sorted(contexts):
        line.read(length)
        for rows in usable:
            watch(len(found), total)
            times = _plain(line, repeats) if rows == 1 else _blocks(line, rows, repeats)
            found.append(Cost(rows, length, median_low(times), min(times), max(times)))
    watch(total, total)
    return found


def _plain(line: _Timeline, repeats: int) -> list[float]:
    """Seconds between the reads of plain rounds, each enqueued before the one before it is read."""
    before = line.enqueued(Part(line.caches, line.context, GREEDY, line.length, (next(line.text),)))
    line.kept(before, 1)
    read, times = time.perf_counter(), list[float]()
    for _ in range(repeats + 1):
        after = line.enqueued(Part(line.caches, line.context, GREEDY, line.length, (), source=0), before)
        line.kept(after, 1)
        before.packed.tolist()
        now = time.perf_counter()
        times.append(now - read)
        before, read = after, now
    before.packed.tolist()
    line.catch_up()
    return times[1:]


def _blocks(line: _Timeline, rows: int, repeats: int) -> list[float]:
    """Seconds from before a block is drafted until its draws are read and its wrong rows are taken back."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        line.catch_up()
        found = line.enqueued(Part(line.caches, line.context, GREEDY, line.length, (next(line.text),), drafts=rows - 1))
        found.packed.tolist()
        for cache in line.caches:
            cache.rollback(rows - 1)
        line.kept(found, 1)
        times.append(time.perf_counter() - began)
    return times[1:]
