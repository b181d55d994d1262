"""Bias, penalties, waiting ids and a bound on thinking, against a loop that treats one whole prefix at a time."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models.decode.batch import Batch
from models.decode.request import InvalidRequest, Request, Sampling, ThinkingBudget
from models.decode.sampling import Noise, Pick, draw
from tests.decode.scripted import (
    SILENT,
    VOCAB,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    decode,
    ids_of,
    plainly,
    right,
    run_all,
    states,
    text,
)

BIAS = ((3, 4.5), (7, -100.0), (11, 2.0), (SILENT, 29.0))
EVERYTHING = Sampling(logit_bias=BIAS, presence_penalty=0.7, frequency_penalty=0.4, repetition_penalty=1.2)
SAMPLINGS = {
    "bias": Sampling(logit_bias=BIAS),
    "presence": Sampling(presence_penalty=2.0),
    "frequency": Sampling(frequency_penalty=1.5),
    "a wish to repeat": Sampling(frequency_penalty=-0.8, presence_penalty=-2.0),
    "repetition": Sampling(repetition_penalty=1.8),
    "a wish to repeat everything": Sampling(repetition_penalty=0.6),
    "everything": EVERYTHING,
    "everything, seeded": replace(EVERYTHING, temperature=0.8, seed=-77),
    "everything, filtered": replace(EVERYTHING, temperature=1.1, top_k=12, top_p=0.9, min_p=0.01, seed=5),
}
STOPS = (0, 4, 8)


def processed(request: Request, tokens: list[int], logits: np.ndarray) -> np.ndarray:
    """One row of logits, float32, as the documentation of each parameter says."""
    sampling, answer, z = request.sampling, tokens[len(request.prompt) :], logits.copy()
    for id_, value in sampling.logit_bias:
        z[id_] += np.float32(value)
    for id_ in set(tokens):
        penalty = np.float32(sampling.repetition_penalty)
        z[id_] = z[id_] / penalty if z[id_] > 0 else z[id_] * penalty
    for id_ in set(answer):
        z[id_] = z[id_] - np.float32(sampling.frequency_penalty) * np.float32(answer.count(id_))
        z[id_] = z[id_] - np.float32(sampling.presence_penalty)
    if len(answer) < request.min_tokens:
        z[list(request.stop_ids)] = -1e9
    thinking = request.thinking
    if thinking is not None and len(answer) == thinking.tokens and set(thinking.left_by).isdisjoint(answer):
        z[np.arange(z.size) != thinking.close_id] = -1e9
    return z


def written(request: Request, target: ScriptedTarget | None = None) -> list[int]:
    """The text of the plainest loop."""
    target = target or ScriptedTarget()
    table, tokens = np.array(target.table), list(request.prompt)
    while len(tokens) < len(request.prompt) + request.max_tokens:
        row = processed(request, tokens, table[int(states(mx.array(tokens, dtype=mx.int32))[-1])])
        picks = [Pick(request.sampling, len(tokens))]
        drawn = int(draw(mx.array(row)[None], picks, Noise.of(picks, VOCAB))[0])
        if drawn in request.stop_ids:
            break
        tokens.append(drawn)
    return tokens[len(request.prompt) :]


@pytest.mark.parametrize("block", [1, 3, 5, 9, 16])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_text_is_the_same_at_every_width(sampling: Sampling, block: int) -> None:
    request = asked(sampling=sampling)
    target = ScriptedTarget()
    speculator = ScriptedSpeculator(target, blurred, block) if block > 1 else None
    assert decode(Batch(target, speculator), request) == written(request)
    assert written(request) != plainly(asked(sampling=replace(Sampling(), temperature=sampling.temperature, seed=5)))


@pytest.mark.parametrize("block", [1, 3, 5, 9, 16])
def test_three_side_by_side_write_what_each_writes_alone(block: int) -> None:
    requests = [
        asked([7] * (3 + 5 * i), sampling=sampling, max_tokens=20 + 7 * i)
        for i, sampling in enumerate([Sampling(temperature=0.7, seed=1), EVERYTHING, SAMPLINGS["everything, seeded"]])
    ]
    requests[1] = replace(requests[1], min_tokens=9, stop_ids=frozenset(STOPS), thinking=ThinkingBudget(6, 33))
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, blurred, block) if block > 1 else None, prefill_chunk=4)
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert [text(got[session]) for session in sessions] == [written(request) for request in requests]


@pytest.mark.parametrize("name", ["bias", "a wish to repeat", "everything", "everything, seeded"])
def test_drafts_are_drawn_with_the_same_wishes(name: str) -> None:
    """A drafter that knows the logits has most of its first drafts accepted, whatever the bias and the counts do."""
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, right, 2))
    # The first answer tells that sharing the noise pays.
    for _ in range(2):
        session = batch.add(asked(sampling=SAMPLINGS[name], max_tokens=60))
        run_all(batch)
    assert session.stats.accepted >= 0.9 * session.stats.drafted - 1


@pytest.mark.parametrize("block", [1, 4, 8])
@pytest.mark.parametrize("shortest", [0, 1, 5, 12, 30])
def test_no_stop_id_is_drawn_before_the_minimum(block: int, shortest: int) -> None:
    lengths = []
    for first in range(10):
        target = ScriptedTarget(stop_every=5)
        request = replace(asked([first, 2, 3], stop_ids=STOPS, max_tokens=30), min_tokens=shortest)
        batch = Batch(target, ScriptedSpeculator(target, right, block) if block > 1 else None)
        ids = decode(batch, request)
        assert ids == written(request, target)
        lengths.append(len(ids))
    assert min(lengths) >= shortest
    assert shortest == 30 or min(lengths) < shortest + 8


@pytest.mark.parametrize("block", [1, 4, 16])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.9, top_p=0.8, seed=3)])
@pytest.mark.parametrize("budget", [0, 1, 2, 7, 39, 40, 90])
def test_thinking_ends_at_its_budget_and_no_later(block: int, sampling: Sampling, budget: int) -> None:
    request = replace(asked(sampling=sampling), thinking=ThinkingBudget(budget, SILENT))
    target = ScriptedTarget()
    ids = decode(Batch(target, ScriptedSpeculator(target, blurred, block) if block > 1 else None), request)
    assert ids == written(request)
    assert [place for place, id_ in enumerate(ids) if id_ == SILENT] == [budget] * (budget < 40)
    assert ids[:budget] == plainly(asked(sampling=sampling))[:budget]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_thinking_that_ended_by_itself_is_not_ended_again(block: int) -> None:
    wanted = plainly(asked())
    for place, close in enumerate(wanted[:12]):
        if wanted.index(close) == place:
            for budget in (place + 1, place + 3):
                request = replace(asked(), thinking=ThinkingBudget(budget, close))
                target = ScriptedTarget()
                batch = Batch(target, ScriptedSpeculator(target, right, block) if block > 1 else None)
                assert decode(batch, request) == wanted


@pytest.mark.parametrize("block", [1, 4, 16])
def test_nothing_is_forced_into_what_left_the_thinking(block: int) -> None:
    wanted = plainly(asked())
    opens = next(id_ for place, id_ in enumerate(wanted) if place > 3 and wanted.index(id_) == place)
    for budget in range(wanted.index(opens) + 4):
        request = replace(asked(), thinking=ThinkingBudget(budget, SILENT, frozenset({opens, 2})))
        target = ScriptedTarget()
        batch = Batch(target, ScriptedSpeculator(target, right, block) if block > 1 else None)
        ids = decode(batch, request)
        assert ids == written(request)
        assert (SILENT in ids) == (budget <= wanted.index(opens))


def test_a_round_with_processors_costs_one_host_read() -> None:
    reads: list[int] = []

    def read(packed: mx.array) -> list[int]:
        reads.append(packed.size)
        return ids_of(packed)

    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, blurred), read=read)
    batch.add(replace(asked(sampling=EVERYTHING), top_logprobs=3, min_tokens=3, thinking=ThinkingBudget(4, 9)))
    steps = 0
    while batch.sessions:
        batch.step()
        steps += 1
        assert len(reads) == steps


def test_a_session_that_starts_over_counts_the_same() -> None:
    """Every shared pass raises: both are fed again, and what they count must not be taken in twice."""
    target = ScriptedTarget(most_rows=1)
    batch = Batch(target, ScriptedSpeculator(target, blurred))
    requests = [asked(sampling=EVERYTHING), asked([2, 2], sampling=SAMPLINGS["frequency"])]
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert [text(got[session]) for session in sessions] == [written(request) for request in requests]


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty"),
        ({"logit_bias": ((5, 101.0),)}, r"logit_bias\[5\]"),
        ({"logit_bias": ((5, 1.0), (5, 2.0))}, "logit_bias"),
    ],
)
def test_a_wish_out_of_range_is_refused_by_name(wish: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        Sampling(**wish)  # ty: ignore[invalid-argument-type]


def test_a_request_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="min_tokens is 41"):
        replace(asked(), min_tokens=41)
    with pytest.raises(InvalidRequest, match="top_logprobs is 21"):
        replace(asked(), top_logprobs=21)
    with pytest.raises(InvalidRequest, match="thinking is -1"):
        ThinkingBudget(-1, 5)
    with pytest.raises(InvalidRequest, match=f"logit_bias is {VOCAB}"):
        Batch(ScriptedTarget(), None).add(asked(sampling=Sampling(logit_bias=((VOCAB, 1.0),))))
