"""Drafts that share the target's noise where that pays against the likeliest ones: what is accepted when it is hot."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from models.contract import LayerCache, Row, Speculator, Target
from models.decode.session import Sampling
from tests.bench.arms import Task, ours

TEMPERATURES = (0.7, 1.0)
SHARP = 1e4
"""Logits so many times larger leave noise and temperature no say."""


@dataclass(frozen=True)
class Likeliest:
    """A speculator whose drafts are always its likeliest ids."""

    real: Speculator

    @property
    def block_size(self) -> int:
        return self.real.block_size

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        return self.real.target_layer_ids

    def make_context(self) -> list[LayerCache]:
        return self.real.make_context()

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        return self.real.fuse(taps)

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        self.real.absorb(fused, rows)

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        return self.real.draft_block(anchors, rows) * SHARP


def coupled(target: Target, speculator: Speculator, task: Task) -> dict[str, dict[str, float]]:
    """By temperature: drafts accepted a round in either way, and the first over the second. The text is the same."""
    return {str(temperature): _at(temperature, target, speculator, task) for temperature in TEMPERATURES}


def _at(temperature: float, target: Target, speculator: Speculator, task: Task) -> dict[str, float]:
    sampling = Sampling(temperature, seed=1)
    shared = _accepted(target, speculator, task, sampling)
    likeliest = _accepted(target, Likeliest(speculator), task, sampling)
    return {"coupled": shared, "likeliest": likeliest, "ratio": shared / likeliest}


def _accepted(target: Target, speculator: Speculator, task: Task, sampling: Sampling) -> float:
    """Drafts accepted a round, over all prompts."""
    arm = ours(target, speculator, task, "always", sampling)
    stats = [answer.stats for answer in map(arm, task.prompts) if answer.stats is not None]
    return sum(one.accepted for one in stats) / sum(one.rounds for one in stats)
