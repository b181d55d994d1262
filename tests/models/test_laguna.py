"""The target against mlx-lm's own Laguna on random weights: the same logits, however the tokens are cut."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models import laguna as reference

from models.attention import RowError
from models.cache import CacheError
from models.config import TargetConfig
from models.contract import LayerCache, Row, Rows
from models.laguna import Laguna
from tests.models.closeness import assert_same
from tests.models.published import M_1, XS_2_1
from tests.models.random_laguna import TOKENS, parameters, random_weights, settle, tokens
from tests.models.tiny_checkpoint import TARGET, target_tensors

CLOSE = 2e-5
"""Largest difference of float32 logits; they reach about 10."""

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
SHAPES: dict[str, dict[str, Any]] = {
    "full and sliding, heads per layer, YaRN": {},
    "all full, all dense": {
        "layer_types": ["full_attention"] * 5,
        "mlp_layer_types": ["dense"] * 5,
        "rope_parameters": {"full_attention": PLAIN},
    },
    "one full layer in four, wide window": {
        "layer_types": ["full_attention", *["sliding_attention"] * 3, "full_attention"],
        "sliding_window": 40,
        "num_attention_heads_per_layer": [4, 2, 2, 2, 4],
    },
    "sliding layers first, window of 2": {
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", *["full_attention"] * 2],
        "sliding_window": 2,
    },
    "soft-capped router, all experts chosen, no scaling": {
        "moe_router_logit_softcapping": 3.0,
        "num_experts_per_tok": 4,
        "moe_routed_scaling_factor": 1.0,
    },
    "square root of softplus, experts in every layer": {
        "moe_router_score_func": "sqrtsoftplus",
        "mlp_layer_types": ["sparse"] * 5,
    },
    "no gate, biases, tied head": {
        "gating": False,
        "qkv_bias": True,
        "attention_bias": True,
        "tie_word_embeddings": True,
    },
}


def both(overrides: dict[str, Any]) -> tuple[reference.Model, Laguna]:
    """mlx-lm's network and ours with the same weights under the same names."""
    raw = TARGET | overrides
    theirs, ours = reference.Model(reference.ModelArgs.from_dict(raw)), Laguna(TargetConfig.from_dict(raw))
    weights = random_weights(theirs)
    theirs.load_weights(weights)
    ours.load_weights(weights)
    settle(ours, mx.float32)
    return theirs, ours


def alone(model: Laguna, ids: mx.array, caches: Sequence[LayerCache]) -> mx.array:
    return model(ids, [Row(0, ids.shape[0], caches)]).logits


def cut(model: Laguna, ids: mx.array, ends: Sequence[int]) -> mx.array:
    """All logits of one text, run up to each of `ends` in turn."""
    caches, starts = model.make_caches(8), [0, *ends[:-1]]
    return mx.concatenate([alone(model, ids[start:end], caches) for start, end in zip(starts, ends, strict=True)])


@pytest.mark.parametrize("overrides", SHAPES.values(), ids=SHAPES.keys())
def test_logits_equal_mlx_lm_in_one_pass_in_chunks_and_step_by_step(overrides: dict[str, Any]) -> None:
    theirs, ours = both(overrides)
    ids = tokens()
    expected = theirs(ids[None], cache=theirs.make_cache())[0]
    assert 2 < np.abs(np.array(expected)).max() < 100
    assert_same(cut(ours, ids, [TOKENS]), expected, CLOSE)
    assert_same(cut(ours, ids, [1, 30, 31, 47, 80, TOKENS]), expected, CLOSE)
    assert_same(cut(ours, ids, list(range(1, TOKENS + 1))), expected, CLOSE)


def test_weights_that_are_not_settled_give_the_same_logits_bit_for_bit() -> None:
    ids = tokens()
    for gating in ("per-head", "per-element", False):
        config = TargetConfig.from_dict(TARGET | {"gating": gating})
        plain, settled = Laguna(config), Laguna(config)
        for model in (plain, settled):
            model.load_weights(random_weights(plain))
        settle(settled, mx.float32)
        assert_same(cut(plain, ids, [40, 41, TOKENS]), cut(settled, ids, [40, 41, TOKENS]))


def test_a_text_has_the_same_logits_bit_for_bit_however_it_is_cut(target: Laguna) -> None:
    ids = tokens()
    whole = cut(target, ids, [TOKENS])
    for width in (1, 2, 3, 4, 5, 8, 16, 33):
        ends = [*range(width, TOKENS, width), TOKENS]
        assert_same(cut(target, ids, ends), whole)


def test_ragged_rows_of_several_sessions_have_the_logits_of_each_alone(target: Laguna) -> None:
    texts = [tokens(count, seed=count) for count in (70, 23, 41)]
    sessions = [target.make_caches(8) for _ in texts]
    got: list[list[mx.array]] = [[] for _ in texts]
    reached = [0, 0, 0]
    for lengths in ([40, 1, 17], [1, 8, 1], [3, 1, 5], [1, 1, 1], [25, 12, 17]):
        rows, start = [], 0
        for caches, length in zip(sessions, lengths, strict=True):
            rows.append(Row(start, start + length, caches))
            start += length
        flat = [text[at : at + n] for text, at, n in zip(texts, reached, lengths, strict=True)]
        logits = target(mx.concatenate(flat), rows).logits
        for index, row in enumerate(rows):
            got[index].append(logits[row.start : row.stop])
            reached[index] += lengths[index]
    assert reached == [70, 23, 41]
    for text, parts in zip(texts, got, strict=True):
        assert_same(mx.concatenate(parts), cut(target, text, [text.shape[0]]))


def test_going_back_past_the_window_leaves_no_trace(target: Laguna) -> None:
    ids, rejected = tokens(), tokens(8, seed=3)
    caches, parts, reached = target.make_caches(8), [], 0
    for kept in [40, 3, 1, 5, 1, 1, 7, 2, 8, 1, 1, 4, 6, 2, 1, 7]:
        parts.append(alone(target, ids[reached : reached + kept], caches))
        alone(target, rejected[:7], caches)
        for cache in caches:
            cache.rollback(7)
        reached += kept
    assert reached == TOKENS
    assert_same(mx.concatenate(parts), cut(target, ids, [TOKENS]))


def test_taps_are_the_outputs_of_the_layers_asked_for_in_the_order_asked_for(target: Laguna) -> None:
    ids = tokens(20)
    output = target(ids, [Row(0, 20, target.make_caches(0))], taps=(4, 0, 2))
    assert [tap.shape for tap in output.taps] == [(20, 32)] * 3
    # The last layer's output is what the final norm and the head read.
    assert_same(target.head(target.model.norm(output.taps[0])), output.logits)
    shallow = TARGET | {
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
        "mlp_layer_types": ["dense"],
        "num_attention_heads_per_layer": [2],
    }
    first = Laguna(TargetConfig.from_dict(shallow))
    first.load_weights([(name, value) for name, value in parameters(target) if ".layers." not in name or ".0." in name])
    expected = first(ids, [Row(0, 20, first.make_caches(0))], taps=(0,)).taps[0]
    assert_same(output.taps[1], expected)


def test_logit_rows_pick_rows_for_the_head_in_the_order_asked_for(target: Laguna) -> None:
    ids = tokens(20)
    everything = alone(target, ids, target.make_caches(0))
    rows = [Row(0, 20, target.make_caches(0))]
    some = target(ids, rows, logit_rows=mx.array([19, 3])).logits
    assert_same(some, everything[mx.array([19, 3])])


def test_rows_must_cover_the_batch_and_own_the_right_caches(target: Laguna) -> None:
    caches, ids = target.make_caches(0), tokens(4)
    for rows in ([Row(0, 3, caches)], [Row(1, 4, caches)], [Row(0, 2, caches), Row(3, 4, caches)], [Row(0, 0, caches)]):
        with pytest.raises(RowError):
            target(ids, rows)
    with pytest.raises(RowError, match="brings 4 caches for 5 layers"):
        target(ids, [Row(0, 4, caches[:4])])


def test_a_foreign_cache_is_refused_by_name(target: Laguna) -> None:
    class Foreign:
        offset = 0
        arrays = ()

        def rollback(self, n: int) -> None: ...
        def snapshot(self, start: int, stop: int) -> Rows:
            raise NotImplementedError

        def restore(self, parts: Sequence[Rows]) -> None: ...

    with pytest.raises(CacheError, match="a Foreign is not a cache"):
        target(tokens(4), [Row(0, 4, [Foreign()] * 5)])


@pytest.mark.parametrize("quantised", [False, True])
def test_no_layer_output_is_wider_than_the_parameters(quantised: bool) -> None:
    # The CPU multiplies experts in float32 only unless they are packed, hence the dense model beside it.
    overrides = {} if quantised else {"mlp_layer_types": ["dense"] * 5}
    wide = {"hidden_size": 64, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64}
    ours = Laguna(TargetConfig.from_dict(TARGET | overrides | wide | {"intermediate_size": 64, "head_dim": 32}))
    ours.load_weights(random_weights(ours))
    if quantised:
        nn.quantize(ours, group_size=64, bits=4)
    settle(ours, mx.bfloat16)
    caches = ours.make_caches(4)
    for length in (30, 1, 4):
        output = ours(tokens(length), [Row(0, length, caches)], taps=range(5))
        assert {tap.dtype for tap in output.taps} == {mx.bfloat16}
        assert output.logits.dtype == mx.bfloat16
    assert {array.dtype for cache in caches for array in cache.arrays} == {mx.bfloat16}


FOUR_OF_XS_2_1 = XS_2_1 | {
    "num_hidden_layers": 4,
    "layer_types": XS_2_1["layer_types"][:4],
    "num_attention_heads_per_layer": [48, 64, 64, 64],
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
}
FOUR_OF_M_1 = M_1 | {"num_hidden_layers": 4}
# That file leaves these two to its other fields.
SAID_OTHERWISE = {
    "num_attention_heads_per_layer": [64] * 4,
    "mlp_layer_types": ["dense", "dense", "dense", "sparse"],
}


@pytest.mark.parametrize(
    ("config", "gate_rows"), [(FOUR_OF_XS_2_1, 64), (FOUR_OF_M_1, 64 * 128)], ids=["XS-2.1", "M.1"]
)
def test_the_published_tensors_load_strictly_at_their_real_sizes(config: dict[str, Any], gate_rows: int) -> None:
    # Four layers stand for all; nothing is ever evaluated, so the sizes cost nothing.
    network = Laguna(TargetConfig.from_dict(config))
    tensors = {name: mx.zeros(shape, mx.bfloat16) for name, shape in target_tensors(SAID_OTHERWISE | config).items()}
    network.load_weights(list(network.sanitize(tensors).items()), strict=True)
    shapes = {name: value.shape for name, value in parameters(network)}
    assert network.vocab_size == 100352
    assert shapes["model.layers.3.self_attn.g_proj.weight"] == (gate_rows, config["hidden_size"])
    assert shapes["model.layers.3.mlp.switch_mlp.up_proj.weight"][0] == 256
