"""Log probabilities of a prompt's own tokens, read beside the others, which notice nothing of it."""

from dataclasses import replace

import numpy as np
import pytest

from models.decode.batch import Batch, Update
from models.decode.prefix import PrefixStore
from models.decode.request import InvalidRequest, Request
from models.decode.scoring import CHUNK, Scoring
from models.decode.session import Session
from tests.decode.scripted import (
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    own_logprobs,
    plainly,
    run_all,
    text,
)

LONG = tuple(1 + (7 * place) % 50 for place in range(2 * CHUNK + 5))


def scored(prompt: tuple[int, ...], top: int = 3) -> Request:
    return replace(asked(prompt), prompt_logprobs=top)


def prompt_scores(updates: list[Update]) -> tuple[object, ...]:
    """They come once, with the first ids."""
    assert updates[0].prompt is not None
    assert all(update.prompt is None for update in updates[1:])
    return updates[0].prompt


@pytest.mark.parametrize("prompt", [(5,), (5, 6), LONG[: CHUNK + 1], LONG[: CHUNK + 2], LONG])
@pytest.mark.parametrize("resumed", [False, True])
def test_every_prompt_token_after_the_first_is_scored(prompt: tuple[int, ...], resumed: bool) -> None:
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, blurred), prefix=PrefixStore(2**20) if resumed else None)
    for _ in range(1 + resumed):
        session = batch.add(scored(prompt))
        updates = run_all(batch)[session]
        assert text(updates) == plainly(asked(prompt))
        scores = updates[0].prompt
        assert scores is not None
        wanted = own_logprobs([prompt[0]], list(prompt[1:]))
        assert len(scores) == len(prompt) - 1
        for row, id_, told in zip(wanted, prompt[1:], scores, strict=True):
            assert told.logprob == pytest.approx(row[id_], abs=1e-5)
            assert [best for best, _ in told.top] == np.argsort(-row)[:3].tolist()
        assert all(update.prompt is None for update in updates[1:])


def test_others_go_on_meanwhile_and_a_round_reads_one_chunk() -> None:
    target = ScriptedTarget()
    batch = Batch(target, None)
    beside, first, second = batch.add(asked()), batch.add(scored(LONG)), batch.add(scored(LONG[1:]))
    got: dict[Session, list[Update]] = {session: [] for session in (beside, first, second)}
    for step in range(3):
        assert batch.sessions.count(first) == 1
        for update in batch.step():
            got[update.session].append(update)
        assert len(text(got[beside])) == step + 1
    while batch.sessions:
        for update in batch.step():
            got[update.session].append(update)
    for session, updates in got.items():
        assert text(updates) == plainly(asked(session.request.prompt))
    assert [len(prompt_scores(got[session])) for session in (first, second)] == [len(LONG) - 1, len(LONG) - 2]


def test_a_prompt_is_read_beside_an_answer_while_others_are_scored() -> None:
    """Rounds beside a scored prompt tell no costs, so nothing may wait until one is told."""
    batch = Batch(ScriptedTarget(), None)
    scores, answer = batch.add(scored(8 * LONG)), batch.add(asked(max_tokens=100))
    batch.step()
    late = batch.add(asked(LONG[:100], max_tokens=5))
    for _ in range(13):
        batch.step()
    assert late.emitted == plainly(late.request)
    assert (scores.emitted, len(answer.emitted)) == ([], 14)


def test_one_that_is_cancelled_or_fails_lets_go_and_the_others_do_not_notice() -> None:
    target = ScriptedTarget(fails_on=59)
    batch = Batch(target, None)
    fails, goes, stays = batch.add(scored((3, 59, 4))), batch.add(scored(LONG)), batch.add(scored((1, 2, 3)))
    (update,) = batch.step()
    assert (update.session, type(update.error), fails.finish) == (fails, RuntimeError, "error")
    batch.step()
    batch.cancel(goes)
    assert (goes.finish, batch.sessions) == ("cancelled", (stays,))
    updates = run_all(batch)[stays]
    assert text(updates) == plainly(asked((1, 2, 3)))
    assert len(prompt_scores(updates)) == 2


def test_its_caches_are_gone_when_it_is_over() -> None:
    target = ScriptedTarget()
    scoring = Scoring(target, LONG, 0)
    assert [scoring.advance() for _ in range(3)] == [False, False, True]
    assert [size for _, size in target.passes] == [CHUNK, CHUNK, 4]
    assert (scoring._caches, len(target.caches)) == ([], 1)


def test_more_alternatives_than_there_may_be_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="prompt_logprobs"):
        scored((1,), top=21)
