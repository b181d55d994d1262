"""The laws with the pair that comes with the project: trained, so that blocks are accepted, over real chats."""

from dataclasses import replace

import pytest

from models.decode.batch import Batch
from models.decode.request import Request, Sampling, ThinkingBudget
from models.loading import Loading
from models.runtime import Runtime, load_runtime
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.score import turns_of
from tests.decode.scripted import run_all, text

SAMPLINGS = [Sampling(), Sampling(0.7, seed=-1), Sampling(1.2, seed=2), Sampling(1.2, 20, 0.9, 0.02, seed=3)]


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


def requests(runtime: Runtime, sampling: Sampling) -> list[Request]:
    prompts = [prompt for index in range(3) for _, prompt, _ in turns_of(held_out(index))][:4]
    return [
        Request(tuple(runtime.tokenizer.encode(prompt)), sampling, 60, runtime.tokenizer.eos_ids, "always")
        for prompt in prompts
    ]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_four_chats_at_once_with_drafts_read_as_each_alone_without(runtime: Runtime, sampling: Sampling) -> None:
    batch = runtime.batch()
    wanted = []
    for request in requests(runtime, sampling):
        alone = Batch(runtime.target, None)
        session = alone.add(request)
        wanted.append(text(run_all(alone)[session]))
    sessions = [batch.add(request) for request in requests(runtime, sampling)]
    got = run_all(batch)
    assert [text(got[session]) for session in sessions] == wanted
    assert {session.finish for session in sessions} <= {"stop", "length"}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_all_wishes_together_write_the_same_text_with_drafts_side_by_side(runtime: Runtime, temperature: float) -> None:
    bias = ((300, 2.0), (301, -100.0), (40, 1.5))
    sampling = Sampling(
        temperature, top_p=0.95, seed=9, logit_bias=bias, presence_penalty=0.3, frequency_penalty=0.1,
        repetition_penalty=1.05,
    )  # fmt: skip
    close = runtime.tokenizer.token_id("</think>")
    assert close is not None
    budget = ThinkingBudget(9, close)
    asked = [
        replace(request, max_tokens=36, min_tokens=12, thinking=budget, top_logprobs=3)
        for request in requests(runtime, sampling)[:3]
    ]
    alone, together = Batch(runtime.target, None), runtime.batch()
    plain = [(alone.add(request), run_all(alone))[0] for request in asked]
    sessions = [together.add(request) for request in asked]
    got = run_all(together)
    assert [session.emitted for session in sessions] == [session.emitted for session in plain]
    assert sum(session.stats.accepted for session in sessions) > sum(session.stats.rounds for session in sessions)
    assert [close in session.emitted[:10] for session in sessions] == [True] * len(asked)
    for session in sessions:
        scores = [each for update in got[session] for each in update.scores]
        assert [each.logprob <= 0 and len(each.top) == 3 for each in scores] == [True] * len(session.emitted)


def test_a_trained_speculator_is_mostly_right(runtime: Runtime) -> None:
    batch = runtime.batch()
    sessions = [batch.add(request) for request in requests(runtime, Sampling())]
    run_all(batch)
    rounds, accepted = (
        sum(value for value in column)
        for column in zip(*((session.stats.rounds, session.stats.accepted) for session in sessions), strict=True)
    )
    assert accepted > 2 * rounds


@pytest.mark.parametrize("sampling", SAMPLINGS[:2])
def test_a_speculator_quantised_as_it_loads_changes_no_text(runtime: Runtime, sampling: Sampling) -> None:
    small = load_runtime(loading=Loading(speculator_bits=4))
    assert small.warnings == ()
    alone, batch = Batch(runtime.target, None), small.batch()
    wanted = [alone.add(request) for request in requests(runtime, sampling)]
    sessions = [batch.add(request) for request in requests(small, sampling)]
    plain, got = run_all(alone), run_all(batch)
    assert [text(got[session]) for session in sessions] == [text(plain[session]) for session in wanted]
    assert sum(session.stats.accepted for session in sessions) > 0
