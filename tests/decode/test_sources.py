"""Drafts from the client's prediction and from the context: whatever they say, the text is the target's own."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from models.decode.batch import Batch
from models.decode.session import InvalidRequest, Request, Sampling, Speculation
from models.slack import GIVEN_ROWS
from tests.decode.scripted import (
    VOCAB,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    decode,
    ids_of,
    plainly,
    right_to,
    run_all,
    text,
    wrong,
)

SAMPLINGS = [Sampling(), Sampling(temperature=0.9, seed=7), Sampling(temperature=1.1, top_k=12, top_p=0.9, seed=3)]
SPECULATION: list[Speculation] = ["always", "auto", "off"]


def loose(
    *,
    sampling: Sampling | None = None,
    speculation: Speculation = "always",
    max_tokens: int = 150,
    prediction: Sequence[int] = (),
) -> Request:
    """A request to the target that repeats itself."""
    return asked([3] * 4, sampling=sampling, max_tokens=max_tokens, speculation=speculation, prediction=prediction)


def edited(answer: list[int]) -> dict[str, list[int]]:
    middle = len(answer) // 2
    return {
        "as it comes": answer,
        "one id changed": [*answer[:middle], (answer[middle] + 1) % 50, *answer[middle + 1 :]],
        "some left out": answer[:8] + answer[14:],
        "some put in": [*answer[:10], 1, 2, 3, 4, *answer[10:]],
        "too short": answer[:5],
        "something else": list(range(40)),
    }


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("drafted", [False, True])
def test_no_prediction_changes_the_text(sampling: Sampling, speculation: Speculation, drafted: bool) -> None:
    plain = asked(sampling=sampling, speculation=speculation)
    wanted = plainly(plain)
    for name, prediction in edited(wanted).items():
        target = ScriptedTarget()
        batch = Batch(target, ScriptedSpeculator(target, right_to(2)) if drafted else None)
        assert decode(batch, replace(plain, prediction=tuple(prediction))) == wanted, name


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("speculation", SPECULATION)
@pytest.mark.parametrize("drafted", [False, True])
def test_no_copy_changes_the_text(sampling: Sampling, speculation: Speculation, drafted: bool) -> None:
    target = ScriptedTarget(remembered=2)
    request = loose(sampling=sampling, speculation=speculation)
    batch = Batch(target, ScriptedSpeculator(target, blurred) if drafted else None)
    assert decode(batch, request) == plainly(request, ScriptedTarget(remembered=2))


def test_a_true_prediction_saves_rounds_without_a_speculator() -> None:
    wanted = plainly(asked(max_tokens=1 + 4 * GIVEN_ROWS))
    batch = Batch(ScriptedTarget(), None)
    session = batch.add(asked(max_tokens=1 + 4 * GIVEN_ROWS, prediction=wanted))
    assert text(run_all(batch)[session]) == wanted
    stats = session.stats
    assert stats.rounds == 4
    assert stats.by_source == (("prediction", 60, 60),)
    assert stats.predicted == (65, 0)
    assert stats.speculation_off is None


def test_a_repetition_is_copied_without_a_speculator() -> None:
    batch = Batch(ScriptedTarget(remembered=1), None)
    session = batch.add(loose())
    run_all(batch)
    ((source, drafted, accepted),) = session.stats.by_source
    assert source == "copy"
    assert accepted > 80
    assert accepted <= drafted
    assert session.stats.rounds + accepted == 149


def test_after_a_difference_a_prediction_saves_rounds_again() -> None:
    wanted = plainly(asked(max_tokens=60))
    prediction = [*wanted[:20], SILENCE, *wanted[21:]]
    batch = Batch(ScriptedTarget(), None)
    session = batch.add(asked(max_tokens=60, prediction=prediction))
    assert text(run_all(batch)[session]) == wanted
    assert session.stats.predicted == (59, 1)
    assert session.stats.rounds < 14


SILENCE = VOCAB - 2


def test_what_came_as_predicted_is_counted_alike_however_it_was_drafted() -> None:
    wanted = plainly(asked(max_tokens=60))
    prediction = [*wanted[:20], SILENCE, *wanted[21:50]]
    counted = set()
    for speculation in SPECULATION:
        target = ScriptedTarget()
        batch = Batch(target, ScriptedSpeculator(target, wrong))
        session = batch.add(asked(max_tokens=60, prediction=prediction, speculation=speculation))
        run_all(batch)
        counted.add(session.stats.predicted)
    assert counted == {(49, 1)}


def test_nothing_is_proposed_when_the_request_turned_speculation_off() -> None:
    batch = Batch(ScriptedTarget(remembered=2), None)
    session = batch.add(loose(speculation="off", prediction=(1, 2, 3)))
    run_all(batch)
    assert session.stats.rounds == 149
    assert session.stats.by_source == ()


def test_a_context_takes_up_every_committed_row_whoever_drafted() -> None:
    request = asked(max_tokens=80)
    wanted = plainly(request)
    prediction = [*wanted[:20], SILENCE, *wanted[21:30], SILENCE, *wanted[31:]]
    target = ScriptedTarget()
    speculator = ScriptedSpeculator(target, right_to(1))
    batch = Batch(target, speculator)
    session = batch.add(replace(request, prediction=tuple(prediction)))
    assert text(run_all(batch)[session]) == wanted
    assert [source for source, _, _ in session.stats.by_source] == ["prediction", "speculator"]
    context = ids_of(speculator.contexts[0].held)
    assert len(context) > 30
    assert context == [*request.prompt, *wanted][: len(context)]
    assert ids_of(target.caches[0].held) == [*request.prompt, *wanted[:-1]]


def test_the_controller_takes_what_pays() -> None:
    """With a clock that tells the cost of every pass: rows are nearly free, and the speculator is always wrong."""
    target = ScriptedTarget(remembered=1)
    speculator = ScriptedSpeculator(target, wrong)
    batch = Batch(target, speculator, clock=lambda: 0.9 * len(target.passes) + 0.05 * sum(n for _, n in target.passes))
    session = batch.add(loose(speculation="auto", max_tokens=400))
    run_all(batch)
    sources = {source: (drafted, accepted) for source, drafted, accepted in session.stats.by_source}
    assert sources["copy"][1] > 200
    assert sources["speculator"][0] < 30
    assert session.stats.rounds < 150


def test_a_wrong_prediction_is_given_up() -> None:
    target = ScriptedTarget()
    batch = Batch(target, None, clock=lambda: float(sum(n for _, n in target.passes)))
    prediction = [token for token in plainly(asked(max_tokens=300)) for _ in (0, 1)]
    session = batch.add(asked(max_tokens=300, prediction=prediction, speculation="auto"))
    run_all(batch)
    assert sum(drafted for _, drafted, _ in session.stats.by_source) < 60


def test_a_prediction_beyond_the_vocabulary_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match=f"prediction is {VOCAB}"):
        Batch(ScriptedTarget(), None).add(asked(prediction=[1, VOCAB]))
