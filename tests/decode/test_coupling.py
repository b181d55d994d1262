from random import Random

import mlx.core as mx
import pytest

from models.decode.batch import Batch
from models.decode.coupling import FURTHEST, Coupling, Heat
from models.decode.session import Sampling
from tests.decode.scripted import Says, ScriptedSpeculator, ScriptedTarget, asked, plainly, right, run_all, text

HOT = Heat.of("answer", 0.7)
SHARP = 8.0
BLOCKS = 5000


def alike(scale: float = 1.0) -> ScriptedTarget:
    """A target that says the same at every place, so that a speculator can know all of a block."""
    target = ScriptedTarget()
    target.table = mx.broadcast_to(target.table[7:8] * scale, target.table.shape)
    return target


def flat(true: mx.array, seen: mx.array, depth: int) -> mx.array:
    """The right likeliest id, and little else."""
    return true / SHARP / 2


def answer(target: ScriptedTarget, says: Says, sampling: Sampling, tokens: int = 200) -> tuple[int, int]:
    """Drafted and accepted in the second of two answers, by when it is known what pays; both must be the plain text."""
    batch = Batch(target, ScriptedSpeculator(target, says))
    request = asked(sampling=sampling, max_tokens=tokens)
    sessions = []
    for _ in range(2):
        sessions.append(batch.add(request))
        assert text(run_all(batch)[sessions[-1]]) == plainly(request, target)
    return sessions[-1].stats.drafted, sessions[-1].stats.accepted


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.3, seed=1),
        Sampling(temperature=1.0, seed=2),
        Sampling(temperature=1.7, seed=-3),
        Sampling(temperature=0.9, top_p=0.8, seed=4),
        Sampling(temperature=1.2, top_k=9, min_p=0.02, seed=5),
    ],
)
def test_drafts_with_the_targets_own_logits_are_all_accepted_at_any_temperature(sampling: Sampling) -> None:
    drafted, accepted = answer(alike(), right, sampling)
    assert drafted == accepted > 150


def test_a_speculator_less_sure_than_its_target_soon_drafts_its_likeliest_ids() -> None:
    drafted, accepted = answer(alike(SHARP), flat, Sampling(temperature=1.0, seed=3))
    assert accepted >= 0.8 * drafted


def test_what_agrees_more_often_is_drafted_and_a_change_is_soon_followed() -> None:
    coupling = Coupling()
    assert coupling.likeliest(HOT)
    for _ in range(200):
        coupling = coupling.after(HOT, 5, 2)
    for _ in range(FURTHEST):
        assert not coupling.likeliest(HOT)
        coupling = coupling.after(HOT, 3, 4)
    for _ in range(200):
        assert coupling.likeliest(HOT)
        coupling = coupling.after(HOT, 3, 4)
    for _ in range(FURTHEST + 1):
        assert coupling.likeliest(HOT)
        coupling = coupling.after(HOT, 4, 3)
    assert not coupling.likeliest(HOT)


def test_noise_that_is_worth_it_is_followed_within_two_blocks_and_a_draft_or_two_say_nothing() -> None:
    coupling = Coupling().after(HOT, 2, 0).after(HOT, 3, 1)
    assert coupling.likeliest(HOT)
    assert not coupling.after(HOT, 1, 0).likeliest(HOT)


def test_where_the_noise_is_a_little_worse_chance_does_not_make_it_drafted() -> None:
    """In as many blocks as with the embedded pair on open questions, only one of the two has a draft right."""
    chance, coupling, coupled = Random(5), Coupling(), 0
    for _ in range(BLOCKS):
        hit = chance.choices([(1, 1), (0, 1), (1, 0)], (0.82, 0.12, 0.06))[0]
        coupling = coupling.after(HOT, *hit)
        coupled += not coupling.likeliest(HOT)
    assert coupled < 0.02 * BLOCKS


def test_phases_and_temperatures_are_compared_apart_and_a_new_phase_starts_like_another() -> None:
    coupling = Coupling().after(HOT, 6, 1)
    assert not coupling.likeliest(HOT)
    assert not coupling.likeliest(Heat.of("thinking", 0.72))
    assert coupling.likeliest(Heat.of("answer", 1.0))
    thinking = coupling.after(Heat.of("thinking", 0.7), 1, 3)
    assert thinking.likeliest(Heat.of("thinking", 0.7))
    assert not thinking.likeliest(HOT)
