"""What drafting did, block by block: by depth, by kind of work and by phase of the answer."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from models.decode.acceptance import Phase


@dataclass(frozen=True)
class Block:
    """One block: its drafts and how many of them the target agreed to."""

    kind: str
    phase: Phase
    drafted: int
    agreed: int


@dataclass(frozen=True)
class Depths:
    """By depth: of the drafts judged there (all before it agreed), the share that agreed."""

    rates: tuple[float, ...]
    blocks: int

    def expected(self, rows: int) -> float:
        """Tokens that a block of so many rows commits; unseen depths are like the deepest seen."""
        if not self.rates:
            return 1.0
        rates = [self.rates[min(depth, len(self.rates) - 1)] for depth in range(rows - 1)]
        return sum(accumulate(rates, lambda product, rate: product * rate, initial=1.0))


def depths(blocks: Iterable[Block]) -> Depths:
    """The shares over these blocks."""
    judged: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    total = 0
    for block in blocks:
        total += 1
        for depth in range(min(block.agreed + 1, block.drafted)):
            judged[depth] += 1
            agreed[depth] += depth < block.agreed
    return Depths(tuple(agreed[depth] / judged[depth] for depth in sorted(judged)), total)
