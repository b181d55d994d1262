"""Sessions whose tokens are taken together write what they would write alone."""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

import mlx.core as mx
import pytest

from models import kernels
from models.cache import FullCache, WindowCache
from models.config import TargetConfig
from models.contract import LayerCache, Row
from models.laguna import Laguna
from tests.models.random_laguna import random_weights, settle
from tests.models.tiny_checkpoint import TARGET

SLACK, SESSIONS, ROUNDS = 16, 4, 60
CLOSE = 2e-5
"""Largest difference of float32 logits where MLX's kernel pads what it sums; they reach about 10."""


def network(dtype: mx.Dtype = mx.float32, changed: Mapping[str, object] = MappingProxyType({})) -> Laguna:
    target = Laguna(TargetConfig.from_dict({**TARGET, **changed}))
    target.load_weights(random_weights(target))
    settle(target, dtype)
    return target


def beside(caches: list[LayerCache]) -> bool:
    """Whether any of them lives beside another session's."""
    return any(
        cache.held.shared and cache.held.home.count > 1
        for cache in caches
        if isinstance(cache, FullCache | WindowCache)
    )


def played(target: Laguna, seed: int) -> tuple[float, int]:
    """Random rounds, all at once and one by one: the largest difference of logits, and the rounds spent beside others.

    Most sessions bring one token most of the time; now and then one brings more, goes back, stays away or starts again.
    """
    chance, worst, met = Random(seed), 0.0, 0
    pairs = [(target.make_caches(SLACK), target.make_caches(SLACK)) for _ in range(SESSIONS)]
    for _ in range(ROUNDS):
        rows, ids, alone, reached = list[Row](), list[int](), [], 0
        for place in range(SESSIONS):
            if chance.random() < 0.03:
                pairs[place] = target.make_caches(SLACK), target.make_caches(SLACK)
            ours, own = pairs[place]
            if not ours[0].offset or chance.random() < 0.9:
                length = chance.randrange(3, 90) if not ours[0].offset else chance.choice([1] * 12 + [2, 7])
                fresh = [chance.randrange(TARGET["vocab_size"]) for _ in range(length)]
                rows.append(Row(reached, reached + length, ours))
                alone.append(target(mx.array(fresh), [Row(0, length, own)]).logits)
                ids += fresh
                reached += length
        if not rows:
            continue
        logits = target(mx.array(ids), rows).logits
        worst = max(worst, float(mx.abs(logits - mx.concatenate(alone)).max()))
        met += sum(beside(list(row.caches)) for row in rows) > 1
        for caches in (caches for caches in pairs if caches[0][0].offset > 4 and chance.random() < 0.1):
            for cache in (*caches[0], *caches[1]):
                cache.rollback(2)
    return worst, met


@pytest.mark.parametrize("seed", range(3))
def test_every_logit_is_the_one_computed_alone(seed: int) -> None:
    worst, met = played(network(), seed)
    assert met > ROUNDS / 3
    assert worst == 0.0


def test_so_it_is_with_the_kernel_that_a_gpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "on_cpu", lambda: False)
    worst, met = played(network(), 3)
    assert met > ROUNDS / 3
    assert worst < CLOSE


def test_shared_buffers_keep_the_dtype() -> None:
    # MLX multiplies experts on the CPU in float32 only.
    target = network(mx.bfloat16, {"mlp_layer_types": ["dense"] * 5})
    sessions = [target.make_caches(SLACK) for _ in range(2)]
    for token in range(8):
        rows = [Row(place, place + 1, caches) for place, caches in enumerate(sessions)]
        logits = target(mx.array([token, token + 1]), rows).logits
    assert logits.dtype == mx.bfloat16
    assert all(beside(caches) for caches in sessions)
    assert {array.dtype for caches in sessions for cache in caches for array in cache.arrays} == {mx.bfloat16}
