"""Which width should pay, from acceptance and costs alone (Leviathan et al. 2023, with measured costs).

A block of L rows commits 1 + a1 + a1 a2 + ... tokens in the seconds that a round of L rows takes; plain decoding
commits one in a plain round's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.timing import Cost
from server.bench.tally import Depths


@dataclass(frozen=True)
class Prediction:
    """Speed-ups over plain decoding by rows; 1 row is plain decoding itself."""

    speedups: Mapping[int, float]

    @property
    def best(self) -> int:
        """The width that pays most."""
        return max(self.speedups, key=lambda rows: self.speedups[rows])


def predicted(costs: Sequence[Cost], context: int, depths: Depths) -> Prediction:
    """At the calibrated context nearest to `context`; only plain decoding where nothing was ever drafted."""
    nearest = min({cost.context for cost in costs}, key=lambda known: abs(known - context))
    seconds = {cost.rows: cost.seconds for cost in costs if cost.context == nearest}
    usable = seconds if depths.blocks else {1: seconds[1]}
    return Prediction(
        {rows: (depths.expected(rows) if rows > 1 else 1.0) * seconds[1] / usable[rows] for rows in sorted(usable)}
    )
