"""The ways to decode the same prompts that are timed against each other."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step

from models.contract import Speculator, Target
from models.decode.batch import Batch
from models.decode.session import Request, Sampling, Session, Speculation, Stats

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """One answer and the seconds from its first id to its last."""

    ids: tuple[int, ...]
    seconds: float
    stats: Stats | None = None


@dataclass(frozen=True)
class Task:
    """What every arm is given."""

    prompts: Sequence[Prompt]
    stop_ids: frozenset[int]
    max_tokens: int


def decode(batch: Batch, request: Request) -> tuple[Session, tuple[int, ...]]:
    """Run one request to its end, alone in its batch."""
    session, ids = batch.add(request), list[int]()
    while batch.sessions:
        for update in batch.step():
            if update.error is not None:
                raise update.error
            ids += update.ids
    return session, tuple(ids)


def ours(
    target: Target, speculator: Speculator, task: Task, speculation: Speculation, sampling: Sampling
) -> Callable[[Prompt], Answer]:
    """An arm of this project; its batch, and what its width learns, live as long as the arm."""
    batch = Batch(target, speculator)

    def answer(prompt: Prompt) -> Answer:
        session, ids = decode(batch, Request(prompt, sampling, task.max_tokens, task.stop_ids, speculation))
        return Answer(ids, session.stats.decode_seconds, session.stats)

    return answer


def mlx_lm(model: nn.Module, task: Task) -> Callable[[Prompt], Answer]:
    """mlx-lm's own plain loop, greedy, on the same checkpoint."""

    def answer(prompt: Prompt) -> Answer:
        ids, times = list[int](), list[float]()
        for token, _ in generate_step(mx.array(prompt), model, max_tokens=task.max_tokens):
            times.append(time.perf_counter())
            if int(token) in task.stop_ids:
                break
            ids.append(int(token))
        return Answer(tuple(ids), times[-1] - times[0])

    return answer
