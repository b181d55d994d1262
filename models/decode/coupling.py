"""Whether drafts share the target's noise or are the speculator's likeliest ids: what agrees more often is drafted.

A target that is surer than its speculator hardly follows the noise, and then neither should the drafts. Both are
lossless, and what was not drafted is compared with the target's draws all the same, so nothing has to be tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from models.decode.acceptance import Phase

DOUBT = 4
"""Drafts by which the likeliest ids are ahead at first: they agree as often or more unless noise is worth following.

A speculator whose noise is worth it makes up for that in a block or two; of others, chance seldom says so much.
"""
FURTHEST = 8
"""Drafts that either can be ahead: a change is followed after so many, however long it was the other way."""


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
    """Which drafts agreed more often, with noise or without, where the target's text had come so far."""

    ahead: Mapping[Heat, int] = field(default_factory=dict)
    """By so many more drafts the likeliest ids agreed of late; below 0, those with the noise did."""

    def likeliest(self, heat: Heat) -> bool:
        """Whether to draft the likeliest ids.

        The drafts of one block do not know each other, so that the likeliest go together better.
        """
        return self._known(heat) >= 0

    def after(self, heat: Heat, coupled: int, likeliest: int) -> "Coupling":
        """With one more block, in which so many drafts agreed, or would have."""
        ahead = self._known(heat) + likeliest - coupled
        return Coupling({**self.ahead, heat: max(-FURTHEST, min(FURTHEST, ahead))})

    def _known(self, heat: Heat) -> int:
        """A new phase starts as another that is as hot, and the first in doubt of the noise."""
        alike = (ahead for other, ahead in self.ahead.items() if other.tenths == heat.tenths)
        return self.ahead[heat] if heat in self.ahead else next(alike, DOUBT)
