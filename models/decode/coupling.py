"""Whether drafts share the target's noise or are the speculator's likeliest ids: what agrees more often is drafted.

A target that is surer than its speculator hardly follows the noise, and then neither should the drafts. Both are
lossless, and what was not drafted is compared with the target's draws all the same, so nothing has to be tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from models.decode.acceptance import Phase

FADING = 0.98
"""What an older comparison still counts after one more block."""


class Heat(NamedTuple):
    """Where drafts are compared apart."""

    phase: Phase
    tenths: int
    """Of the temperature."""

    @classmethod
    def of(cls, phase: Phase, temperature: float) -> "Heat":
        """The nearest tenth."""
        return cls(phase, round(10 * temperature))


@dataclass(frozen=True)
class Coupling:
    """How many drafts would have agreed of late, with noise and without, where the target's text had come so far."""

    agreed: Mapping[Heat, tuple[float, float]] = field(default_factory=dict)

    def likeliest(self, heat: Heat) -> bool:
        """Whether to draft the likeliest ids; a new phase starts as others that are as hot, and the first with them.

        The drafts of one block do not know each other, so that the likeliest go together better.
        """
        own = self.agreed.get(heat)
        known = [own] if own else [pair for other, pair in self.agreed.items() if other.tenths == heat.tenths]
        return sum(without for _, without in known) >= sum(coupled for coupled, _ in known)

    def after(self, heat: Heat, coupled: int, likeliest: int) -> "Coupling":
        """With one more block, in which so many drafts agreed, or would have."""
        before = self.agreed.get(heat, (0.0, 0.0))
        return Coupling({**self.agreed, heat: (before[0] * FADING + coupled, before[1] * FADING + likeliest)})
