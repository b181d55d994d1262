"""Drafts that share the target's noise against the likeliest ones: what is accepted when it is hot.

Three ways: as the loop decides, always with the noise, and never. The text is the same in all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from models.contract import Row, Speculator, Target
from models.decode.sampling import Noise, Pick, draw
from models.decode.session import Sampling
from tests.bench.arms import Answer, Task, ours
from tests.decode.forwarding import Forwarding

TEMPERATURES = (0.7, 1.0)
SHARP = 1e4
"""Logits so many times larger leave noise and temperature no say."""

Way = Literal["likeliest", "always"]


@dataclass(frozen=True)
class Decided(Forwarding):
    """A speculator whose drafts are its likeliest ids, or always those that the target's noise makes of its logits."""

    way: Way
    sampling: Sampling

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        logits = super().draft_block(anchors, rows)
        if self.way == "likeliest":
            return logits * SHARP
        # The anchor stands where the context ends, and the first draft behind it.
        firsts = [(row.caches[0].offset + 1, row.stop - row.start - 1) for row in rows]
        picks = [Pick(self.sampling, first + depth) for first, drafts in firsts for depth in range(drafts)]
        drawn = draw(logits, picks, Noise.of(picks, logits.shape[-1]))
        return SHARP * (mx.arange(logits.shape[-1]) == drawn[:, None]).astype(mx.float32)


def coupled(
    target: Target, speculator: Speculator, tasks: Mapping[str, Task]
) -> dict[str, dict[str, dict[str, float]]]:
    """By temperature and task: drafts accepted a round in each way, and the loop's and always over the likeliest.

    Beside them, the share of the text that was not the target's likeliest: where that is small, the noise says little.
    The last task, `all`, is all of them together.
    """
    return {str(temperature): _at(target, speculator, tasks, temperature) for temperature in TEMPERATURES}


def _at(
    target: Target, speculator: Speculator, tasks: Mapping[str, Task], temperature: float
) -> dict[str, dict[str, float]]:
    sampling = Sampling(temperature, seed=1)
    ways: dict[str, Speculator] = {
        "loop": speculator,
        "always": Decided(speculator, "always", sampling),
        "likeliest": Decided(speculator, "likeliest", sampling),
    }
    answers = {
        name: {way: _answers(target, drafter, task, sampling) for way, drafter in ways.items()}
        for name, task in tasks.items()
    }
    for name, own in answers.items():
        if len({tuple(answer.ids for answer in answered) for answered in own.values()}) > 1:
            raise RuntimeError(f"the text hangs on what was drafted: {name} at {temperature}")
    unlike = {name: _unlike(target, task, answers[name]["likeliest"]) for name, task in tasks.items()}
    every = {way: [answer for own in answers.values() for answer in own[way]] for way in ways}
    found = {name: _compared(own, unlike[name]) for name, own in answers.items()}
    return found | {"all": _compared(every, mx.concatenate(list(unlike.values())))}


def _compared(answers: Mapping[str, Sequence[Answer]], unlike: mx.array) -> dict[str, float]:
    found = {way: _accepted(own) for way, own in answers.items()}
    return found | {
        "ratio": found["loop"] / found["likeliest"],
        "always_ratio": found["always"] / found["likeliest"],
        "unlikely": float(mx.mean(unlike)),
    }


def _answers(target: Target, speculator: Speculator, task: Task, sampling: Sampling) -> list[Answer]:
    arm = ours(target, speculator, task, "always", sampling)
    return [arm(prompt) for prompt in task.prompts]


def _accepted(answers: Sequence[Answer]) -> float:
    """Drafts accepted a round, over all prompts."""
    stats = [answer.stats for answer in answers if answer.stats is not None]
    return sum(one.accepted for one in stats) / sum(one.rounds for one in stats)


def _unlike(target: Target, task: Task, answers: Sequence[Answer]) -> mx.array:
    """Which of the emitted ids were not the target's likeliest where they stand: bool [ids of all answers]."""
    unlike = []
    for prompt, answer in zip(task.prompts, answers, strict=True):
        ids = mx.array((*prompt, *answer.ids), dtype=mx.int32)
        logits = target(ids, [Row(0, ids.size, target.make_caches(0, ids.size))]).logits
        unlike.append(mx.argmax(logits[len(prompt) - 1 : -1], axis=-1) != ids[len(prompt) :])
    return mx.concatenate(unlike)
