"""Hundreds of requests of every kind leave memory where it was."""

import random

import mlx.core as mx
import pytest

from models.decode.batch import Batch
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Sampling, Speculation
from models.laguna import Laguna
from tests.decode.random_pair import PROMPT, Pair, active_memory, asked

BUDGET = 1 << 20
SPECULATIONS: list[Speculation] = ["always", "auto", "off"]


def any_request(dice: random.Random) -> Request:
    """Of a few systems, conversations and ways to draw."""
    prompt = [dice.randrange(3)] * dice.choice([2, 20, 40]) + dice.choices(range(3, 90), k=dice.choice([1, 5, 30]))
    marks = tuple(sorted({mark for mark in (20, 40) if mark < len(prompt)}))
    sampling = dice.choice([Sampling(), Sampling(temperature=1.0, seed=dice.randrange(9)), Sampling(1.0, top_k=5)])
    speculation = dice.choice(SPECULATIONS)
    return Request(tuple(prompt), sampling, dice.randint(1, 6), frozenset({2, 24}), speculation, marks=marks)


def serve(batch: Batch, dice: random.Random, count: int) -> None:
    """Up to six at once, joining and leaving at any round; one in six is cancelled on its way."""
    while count or batch.sessions:
        while count and len(batch.sessions) < 6:
            batch.add(any_request(dice))
            count -= 1
        batch.step()
        if batch.sessions and dice.random() < 0.06:
            batch.cancel(dice.choice(list(batch.sessions)))


@pytest.mark.usefixtures("exact_buffers")
def test_five_hundred_mixed_requests_leave_memory_where_it_was(pair: Pair) -> None:
    dice, store = random.Random(1), PrefixStore(BUDGET, rung=16)
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=16)
    before = active_memory()
    serve(batch, dice, 60)
    store.clear()
    early = active_memory()
    assert early < before * 1.02
    for _ in range(4):
        serve(batch, dice, 110)
        store.check()
        assert store.nbytes > BUDGET // 2, "the budget is at work"
        assert active_memory() - early < 1.1 * store.nbytes + 0.02 * early
    store.clear()
    assert active_memory() < early * 1.02


@pytest.mark.usefixtures("exact_buffers")
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_hundreds_of_rounds_of_one_session_leave_memory_where_it_was(pair: Pair, speculation: Speculation) -> None:
    """Caches are made for the whole answer at once, so that whatever grows is something that was not let go."""
    batch = Batch(pair.target, pair.speculator)
    session = batch.add(asked(PROMPT, speculation=speculation, max_tokens=600))
    active, peaks = [], []
    while batch.sessions:
        mx.reset_peak_memory()
        for _ in range(25):
            batch.step()
        if batch.sessions:
            active.append(active_memory())
            peaks.append(mx.get_peak_memory())
    assert session.stats.completion_tokens == 600
    # The first rounds read the prompt.
    warm, later = slice(1, 4), slice(-6, None)
    assert len(active) > 9
    assert max(active[later]) < 1.01 * max(active[warm])
    # A longer context has more scores, which the CPU writes out, twice while they become powers.
    assert isinstance(pair.target, Laguna)
    heads, tokens = max(attention.heads for attention in pair.target.config.attention), 25 * (len(peaks) - 1)
    scores = 2 * heads * (pair.speculator.block_size if speculation == "always" else 1) * tokens * mx.float32.size
    assert max(peaks[later]) < 1.02 * max(peaks[warm]) + scores
