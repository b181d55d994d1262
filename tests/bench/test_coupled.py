import mlx.core as mx
import pytest

from models.decode.sampling import Noise, Pick, draw
from models.decode.session import Sampling
from tests.bench.arms import Task
from tests.bench.coupled import coupled
from tests.decode.scripted import ScriptedSpeculator, ScriptedTarget, right

ROUND = 7


def test_drafts_with_the_targets_own_logits_are_all_accepted_always_coupled_and_the_likeliest_are_not() -> None:
    target = ScriptedTarget()
    # It says the same at every place, so that a speculator can know all of a block.
    target.table = mx.broadcast_to(target.table[7:8], target.table.shape)
    tasks = {"one": Task([(3, 1, 4, 1, 5), (9, 2, 6)], frozenset(), 1 + 12 * (ROUND + 1))}
    found = coupled(target, ScriptedSpeculator(target, right, ROUND + 1), tasks)
    assert list(found) == ["0.7", "1.0"]
    for temperature, own in found.items():
        one = own["one"]
        assert one["always"] == ROUND > 1.5 * one["likeliest"]
        assert one["likeliest"] < one["loop"] <= one["always"]
        assert one["ratio"] == pytest.approx(one["loop"] / one["likeliest"])
        assert one["always_ratio"] == pytest.approx(one["always"] / one["likeliest"])
        assert one["unlikely"] == pytest.approx(unlike(target, float(temperature), tasks["one"]))


def test_all_tasks_together_are_counted_by_round_and_by_id() -> None:
    target = ScriptedTarget()
    prompts = [(3, 1, 4), (9, 2, 6, 5)]
    apart = {f"{place}": Task([prompt], frozenset(), 20 + 30 * place) for place, prompt in enumerate(prompts)}
    found = coupled(target, ScriptedSpeculator(target, right, ROUND + 1), apart)["1.0"]
    assert list(found) == ["0", "1", "all"]
    for name in ("always", "likeliest", "loop"):
        assert min(found["0"][name], found["1"][name]) <= found["all"][name] <= max(found["0"][name], found["1"][name])
    assert found["all"]["ratio"] == found["all"]["loop"] / found["all"]["likeliest"]
    ids = [20, 50]
    shares = [found[name]["unlikely"] for name in ("0", "1")]
    assert found["all"]["unlikely"] == pytest.approx(sum(n * s for n, s in zip(ids, shares, strict=True)) / sum(ids))


def unlike(target: ScriptedTarget, temperature: float, task: Task) -> float:
    """The share of such draws that are not the likeliest id, position by position."""
    drawn = []
    for prompt in task.prompts:
        picks = [Pick(Sampling(temperature, seed=1), len(prompt) + place) for place in range(task.max_tokens)]
        rows = mx.broadcast_to(target.table[:1], (len(picks), target.vocab_size))
        drawn.append(draw(rows, picks, Noise.of(picks, target.vocab_size)))
    return float(mx.mean(mx.concatenate(drawn) != mx.argmax(target.table[0])))
