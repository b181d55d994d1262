"""Log probabilities of what was emitted: the model's own, whatever was done to its logits afterwards."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models.decode.batch import Batch
from models.decode.logprobs import read_scores, score
from models.decode.request import Sampling
from tests.decode.scripted import (
    VOCAB,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    ids_of,
    own_logprobs,
    plainly,
    right_to,
    run_all,
    text,
)

HOT = Sampling(temperature=1.3, top_k=9, presence_penalty=1.0, logit_bias=((4, 3.0),), seed=11)


@pytest.mark.parametrize("block", [1, 3, 16])
@pytest.mark.parametrize("sampling", [Sampling(), HOT])
def test_every_emitted_id_is_scored_by_the_models_own_distribution(block: int, sampling: Sampling) -> None:
    requests = [
        replace(asked(sampling=sampling), top_logprobs=4),
        asked([9, 9], sampling=sampling),
        replace(asked([5, 4, 3], sampling=sampling, stop_ids=[0]), top_logprobs=0),
    ]
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, blurred, block) if block > 1 else None)
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    for session, updates in got.items():
        scores, top = [each for update in updates for each in update.scores], session.request.top_logprobs
        if top is None:
            assert scores == []
            continue
        answer = text(updates)
        assert [len(update.scores) for update in updates] == [len(update.ids) for update in updates]
        wanted = own_logprobs(list(session.request.prompt), answer)
        for row, id_, scored in zip(wanted, answer, scores, strict=True):
            assert scored.logprob == pytest.approx(row[id_], abs=1e-5)
            assert scored.logprob <= 0
            assert [best for best, _ in scored.top] == np.argsort(-row)[:top].tolist()
            assert [value for _, value in scored.top] == pytest.approx(sorted(row)[::-1][:top], abs=1e-5)
    assert block == 1 or sessions[0].stats.accepted > 0


def test_asking_for_scores_changes_nothing_else() -> None:
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, right_to(3)))
    session = batch.add(replace(asked(), top_logprobs=20))
    assert text(run_all(batch)[session]) == plainly(asked())
    assert session.stats.accepted > 20


def test_ties_are_told_in_the_order_of_the_ids_and_what_cannot_be_is_minus_infinity() -> None:
    logits = mx.array([[0.0, -mx.inf, 0.0, -1.0]])
    (scored,) = read_scores(ids_of(score(logits, mx.array([1], dtype=mx.int32), 3)), 3)
    assert scored.logprob == -np.inf
    assert [id_ for id_, _ in scored.top] == [0, 2, 3]


def test_scores_ride_in_the_one_read() -> None:
    packed = score(mx.zeros((3, VOCAB), dtype=mx.bfloat16), mx.array([1, 2, 3], dtype=mx.int32), 2)
    assert (packed.dtype, packed.size) == (mx.int32, 15)
    assert [scored.logprob for scored in read_scores(ids_of(packed), 2)] == pytest.approx([-np.log(VOCAB)] * 3)
