import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.decode.sampling import Noise, Pick, draw, position_key
from models.decode.session import EmptyPrompt, InvalidRequest, Request, Sampling
from tests.decode.scripted import ids_of

VOCAB = 40
DRAWS = 20_000


def drawn(logits: np.ndarray, picks: list[Pick]) -> list[int]:
    rows = mx.array(logits.astype(np.float32))
    return ids_of(draw(rows, picks, Noise.of(picks, rows.shape[1])))


def random_logits(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, VOCAB)) * 2


def kept_by(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The distribution after the filters, one id at a time."""
    scaled = logits.astype(np.float32) / np.float32(sampling.temperature)
    alive = np.ones(len(logits), bool)
    order = np.argsort(-scaled, kind="stable")
    if sampling.top_k:
        alive[order[sampling.top_k :]] = False
    share = np.where(alive, np.exp(scaled - scaled.max()), 0)
    share /= share.sum()
    reached = 0.0
    for token in order:
        alive[token] &= reached < sampling.top_p
        reached += share[token]
    alive &= share >= sampling.min_p * share.max()
    share = np.where(alive, share, 0)
    return share / share.sum()


def chi_square_is_ordinary(counts: np.ndarray, expected: np.ndarray) -> bool:
    """Below the 99.9 % quantile (Wilson and Hilferty's approximation), rare ids pooled."""
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    awaited = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    statistic = float(((observed - awaited) ** 2 / awaited).sum())
    free = len(awaited) - 1
    return statistic < free * (1 - 2 / (9 * free) + 3.09 * math.sqrt(2 / (9 * free))) ** 3


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.7, seed=1),
        Sampling(temperature=1.2, seed=-(2**63)),
        Sampling(temperature=1.0, top_k=7, seed=3),
        Sampling(temperature=1.3, top_p=0.8, seed=4),
        Sampling(temperature=1.0, min_p=0.05, seed=5),
        Sampling(temperature=1.5, top_k=20, top_p=0.9, min_p=0.03, seed=2**63 - 1),
    ],
)
def test_the_law_of_what_is_drawn_is_the_filtered_softmax(sampling: Sampling) -> None:
    logits = random_logits(1)
    got = drawn(np.repeat(logits, DRAWS, axis=0), [Pick(sampling, position) for position in range(DRAWS)])
    expected = kept_by(logits[0], sampling) * DRAWS
    counts = np.bincount(got, minlength=VOCAB)
    assert counts[expected == 0].sum() == 0
    assert chi_square_is_ordinary(counts, expected)


def test_a_seed_is_as_good_a_source_as_a_position() -> None:
    logits = random_logits(1)
    got = drawn(np.repeat(logits, DRAWS, axis=0), [Pick(Sampling(1.0, seed=seed), 17) for seed in range(DRAWS)])
    expected = kept_by(logits[0], Sampling(1.0)) * DRAWS
    assert chi_square_is_ordinary(np.bincount(got, minlength=VOCAB), expected)


def test_neighbouring_positions_are_drawn_independently() -> None:
    logits = np.zeros((DRAWS, 4))
    got = np.array(drawn(logits, [Pick(Sampling(1.0, seed=8), position) for position in range(DRAWS)]))
    pairs = np.bincount(got[:-1] * 4 + got[1:], minlength=16)
    assert chi_square_is_ordinary(pairs, np.full(16, (DRAWS - 1) / 16))


def test_zero_temperature_takes_the_most_likely_id_whatever_the_seed_and_filters() -> None:
    logits = random_logits(5)
    picks = [Pick(Sampling(0.0, top_k=3, top_p=0.2, min_p=0.5, seed=row), row) for row in range(5)]
    assert drawn(logits, picks) == logits.argmax(axis=1).tolist()


def test_nearly_zero_temperature_does_not_overflow() -> None:
    logits = random_logits(3) * 1e4
    picks = [Pick(Sampling(1e-30, top_p=0.9, min_p=0.1, seed=row), row) for row in range(3)]
    assert drawn(logits, picks) == logits.argmax(axis=1).tolist()


def test_a_top_p_of_zero_still_leaves_the_best_id() -> None:
    logits = random_logits(4)
    assert drawn(logits, [Pick(Sampling(2.0, top_p=0.0, seed=1), p) for p in range(4)]) == logits.argmax(1).tolist()


def test_a_top_k_as_wide_as_the_vocabulary_is_off() -> None:
    logits, plain = random_logits(6), [Pick(Sampling(1.0, seed=2), p) for p in range(6)]
    assert drawn(logits, [Pick(Sampling(1.0, top_k=VOCAB, seed=2), p) for p in range(6)]) == drawn(logits, plain)


SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.6, 1.0, 1.4]),
    top_k=st.sampled_from([0, 1, 5, 30]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    seed=st.integers(-(2**63), 2**63 - 1),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SAMPLINGS, st.integers(0, 10**6)), min_size=1, max_size=9), st.integers(0, 99))
def test_what_a_row_draws_does_not_depend_on_its_company(rows: list[tuple[Sampling, int]], seed: int) -> None:
    logits, picks = random_logits(len(rows), seed), [Pick(*row) for row in rows]
    together = drawn(logits, picks)
    assert together == [drawn(logits[i : i + 1], picks[i : i + 1])[0] for i in range(len(rows))]


@settings(max_examples=60, deadline=None)
@given(SAMPLINGS.filter(lambda s: s.temperature > 0), st.integers(0, 10**6), st.integers(0, 99))
def test_only_ids_that_pass_the_filters_are_drawn(sampling: Sampling, position: int, seed: int) -> None:
    logits = random_logits(1, seed)
    (token,) = drawn(logits, [Pick(sampling, position)])
    # A float32 sum may put the border of the nucleus one id further than a float64 one.
    wider = Sampling(sampling.temperature, sampling.top_k, min(1.0, sampling.top_p + 1e-5), sampling.min_p)
    assert kept_by(logits[0], wider)[token] > 0


def test_noise_belongs_to_the_token_not_to_its_rank() -> None:
    """Raising one id's logit may only make that id win: the others keep their noise."""
    pick = [Pick(Sampling(1.0, seed=11), 5)]
    logits = random_logits(1)
    (before,) = drawn(logits, pick)
    for token in range(VOCAB):
        raised = logits.copy()
        raised[0, token] += 1.5
        assert drawn(raised, pick)[0] in (before, token)


def test_a_draft_from_nearly_the_same_distribution_agrees_far_more_often_with_shared_noise() -> None:
    rows = 2000
    target = random_logits(rows, 1)
    draft = target + np.random.default_rng(2).normal(size=target.shape) * 0.3
    shared = [Pick(Sampling(1.0, seed=5), position) for position in range(rows)]
    other = [Pick(Sampling(1.0, seed=6), position) for position in range(rows)]
    wanted = np.array(drawn(target, shared))
    assert (wanted == drawn(draft, shared)).mean() > 0.75
    assert (wanted == drawn(draft, other)).mean() < 0.35


def test_keys_differ_between_positions_and_seeds() -> None:
    keys = {position_key(seed, position) for seed in (-1, 0, 1, 2**63 - 1, -(2**63)) for position in range(2000)}
    assert len(keys) == 5 * 2000
    assert all(0 <= word < 2**32 for key in keys for word in key)


def test_one_row_of_noise_serves_all_picks_of_its_key() -> None:
    picks = [Pick(Sampling(0.5, seed=1), 3), Pick(Sampling(0.0, seed=1), 4), Pick(Sampling(0.9, seed=1), 3)]
    noise = Noise.of(picks, VOCAB)
    assert noise.rows is not None
    assert noise.rows.shape == (1, VOCAB)
    assert noise.at([picks[0], picks[2]]).shape == (2, VOCAB)


@pytest.mark.parametrize("temperature", [-0.1, math.nan, math.inf])
def test_a_temperature_out_of_range_is_refused_by_name(temperature: float) -> None:
    with pytest.raises(InvalidRequest, match="temperature"):
        Sampling(temperature)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_out_of_range_is_refused_by_name(seed: int) -> None:
    with pytest.raises(InvalidRequest, match="seed"):
        Sampling(seed=seed)


def test_filters_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="top_k is -1"):
        Sampling(top_k=-1)
    with pytest.raises(InvalidRequest, match=r"top_p is 1\.1"):
        Sampling(top_p=1.1)
    with pytest.raises(InvalidRequest, match=r"min_p is -0\.1"):
        Sampling(min_p=-0.1)


def test_a_request_without_prompt_or_budget_is_refused_by_name() -> None:
    with pytest.raises(EmptyPrompt, match="at least one token"):
        Request((), Sampling(), 1, frozenset())
    with pytest.raises(InvalidRequest, match="max_tokens is 0"):
        Request((1,), Sampling(), 0, frozenset())
