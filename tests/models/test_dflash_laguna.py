"""The speculator against the plain reference, and against itself however its context came in."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from safetensors.numpy import load_file

from models.cache import CacheError, FullCache
from models.config import SpeculatorConfig
from models.contract import LayerCache, Row
from models.dflash_laguna import DFlashLaguna, StandaloneSpeculatorError
from models.laguna import Laguna
from models.memory import buffer_rows
from models.slack import NEAR
from tests.models.closeness import assert_same
from tests.models.plain_dflash import PlainDFlash
from tests.models.published import S_2_1_DFLASH, XS_2_1_DFLASH
from tests.models.random_laguna import settle
from tests.models.tiny_checkpoint import SPECULATOR, speculator_tensors

WINDOW = SPECULATOR["sliding_window"]
CONTEXT = 3 * WINDOW + 5
CLOSE = 2e-5
"""Largest difference between float32 here and float64 in the reference; logits reach about 10."""


@pytest.fixture(scope="module")
def plain(pair_folder: Path) -> PlainDFlash:
    weights = load_file(pair_folder / "speculator" / "model.safetensors")
    lent = load_file(pair_folder / "model.safetensors")
    return PlainDFlash(
        config=json.loads((pair_folder / "speculator" / "config.json").read_text()),
        weights={name: value.astype(np.float64) for name, value in weights.items()},
        embedding=lent["model.embed_tokens.weight"].astype(np.float64),
        head=lent["lm_head.weight"].astype(np.float64),
    )


def states(length: int = CONTEXT, seed: int = 0) -> list[np.ndarray]:
    """Tapped states of several sizes, so that a missing norm shows."""
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal((length, 32)).astype(np.float32) for scale in (0.5, 3.0, 20.0)]


def fused(speculator: DFlashLaguna, taps: list[np.ndarray]) -> mx.array:
    return speculator.fuse([mx.array(tap) for tap in taps])


def context(speculator: DFlashLaguna, rows: mx.array, cuts: list[int] | None = None) -> list[LayerCache]:
    """A context that took `rows` at once, or up to each of `cuts` in turn."""
    caches, ends = speculator.make_context(), cuts or [rows.shape[0]]
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        speculator.absorb(rows[start:end], [Row(0, end - start, caches)])
    return caches


def block(speculator: DFlashLaguna, caches: list[LayerCache], drafts: int, anchor: int = 5) -> np.ndarray:
    return np.array(speculator.draft_block(mx.array([anchor]), [Row(0, 1 + drafts, caches)]))


@pytest.mark.parametrize("length", [1, 7, WINDOW - 1, WINDOW, WINDOW + 1, CONTEXT])
def test_drafts_equal_the_plain_reference_at_any_context_length(
    speculator: DFlashLaguna, plain: PlainDFlash, length: int
) -> None:
    taps = states(length)
    expected = plain.draft([tap.astype(np.float64) for tap in taps], anchor=5, drafts=7)
    assert np.abs(expected).max() > 2
    got = block(speculator, context(speculator, fused(speculator, taps)), 7)
    assert_same(got, expected, CLOSE)


def test_fused_states_equal_the_plain_reference(speculator: DFlashLaguna, plain: PlainDFlash) -> None:
    taps = states()
    assert_same(np.array(fused(speculator, taps)), plain.fuse(taps), CLOSE)


@pytest.mark.parametrize("step", [1, 3, 8, WINDOW, 60])
def test_a_context_is_the_same_however_it_came_in(speculator: DFlashLaguna, step: int) -> None:
    rows = fused(speculator, states())
    at_once = context(speculator, rows)
    in_steps = context(speculator, rows, [*range(step, CONTEXT, step), CONTEXT])
    assert {cache.offset for cache in at_once + in_steps} == {CONTEXT}
    assert_same(block(speculator, at_once, 7), block(speculator, in_steps, 7))


def test_a_row_longer_than_the_window_is_kept_at_its_absolute_positions_only_at_its_end(
    speculator: DFlashLaguna, plain: PlainDFlash
) -> None:
    taps = states(length := 6 * WINDOW)
    caches = context(speculator, fused(speculator, taps), [4, length])
    expected = plain.draft([tap.astype(np.float64) for tap in taps], anchor=5, drafts=7)
    assert_same(block(speculator, caches, 7), expected, CLOSE)
    assert max(array.shape[2] for cache in caches for array in cache.arrays) == buffer_rows(WINDOW, NEAR)


@pytest.mark.parametrize("length", [1, 7, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 2, CONTEXT])
def test_the_last_token_of_a_context_can_be_taken_back_however_many_came_at_once(
    speculator: DFlashLaguna, length: int
) -> None:
    rows = fused(speculator, states())
    caches = context(speculator, rows[:length])
    for cache in caches:
        cache.rollback(1)
    speculator.absorb(rows[length - 1 :], [Row(0, CONTEXT - length + 1, caches)])
    assert_same(block(speculator, caches, 7), block(speculator, context(speculator, rows), 7))


def test_a_narrow_block_is_the_beginning_of_a_wide_one(speculator: DFlashLaguna) -> None:
    caches = context(speculator, fused(speculator, states()))
    wide = block(speculator, caches, 7)
    for drafts in range(1, 7):
        assert_same(block(speculator, caches, drafts), wide[:drafts])


def test_drafting_leaves_the_context_as_it_was(speculator: DFlashLaguna) -> None:
    caches = context(speculator, fused(speculator, states()))
    first = block(speculator, caches, 7)
    assert {cache.offset for cache in caches} == {CONTEXT}
    assert_same(block(speculator, caches, 7), first)


def test_blocks_and_contexts_of_several_sessions_do_not_touch_each_other(speculator: DFlashLaguna) -> None:
    rows = [fused(speculator, states(length, seed=length)) for length in (60, 5, 24)]
    alone = [context(speculator, part) for part in rows]
    together = [speculator.make_context() for _ in rows]
    speculator.absorb(
        mx.concatenate(rows), [Row(0, 60, together[0]), Row(60, 65, together[1]), Row(65, 89, together[2])]
    )
    blocks = [Row(0, 4, together[0]), Row(4, 12, together[1]), Row(12, 14, together[2])]
    got = np.array(speculator.draft_block(mx.array([5, 6, 7]), blocks))
    assert got.shape == (3 + 7 + 1, 97)
    for start, drafts, anchor, caches in ((0, 3, 5, alone[0]), (3, 7, 6, alone[1]), (10, 1, 7, alone[2])):
        assert_same(got[start : start + drafts], block(speculator, caches, drafts, anchor))


def test_weights_that_are_not_settled_draft_alike_up_to_rounding(target: Laguna, speculator: DFlashLaguna) -> None:
    plain = DFlashLaguna(speculator.config, embed=target.embed, head=target.head)
    flat = tree_flatten(speculator.parameters())
    assert isinstance(flat, list)
    plain.load_weights(flat)
    rows = fused(speculator, states())
    drafts = [block(network, context(network, rows, [50, CONTEXT]), 7) for network in (plain, speculator)]
    assert_same(drafts[0], drafts[1], CLOSE)


def test_taps_of_a_real_pass_make_a_context(target: Laguna, speculator: DFlashLaguna) -> None:
    ids = mx.arange(30)
    output = target(ids, [Row(0, 30, target.make_caches(8))], taps=speculator.target_layer_ids)
    caches = context(speculator, speculator.fuse(output.taps))
    assert block(speculator, caches, speculator.block_size - 1).shape == (7, 97)


def test_a_wrong_number_of_taps_is_refused(speculator: DFlashLaguna) -> None:
    with pytest.raises(ValueError, match=r"2 taps; this speculator reads the layers \[0, 2, 4\]"):
        speculator.fuse([mx.zeros((1, 32))] * 2)


def test_a_context_is_made_by_the_speculator(speculator: DFlashLaguna) -> None:
    with pytest.raises(CacheError, match="a FullCache is not a context"):
        speculator.absorb(mx.zeros((100, 32)), [Row(0, 100, [FullCache() for _ in range(3)])])


def test_calling_a_speculator_as_a_language_model_explains_itself(speculator: DFlashLaguna) -> None:
    with pytest.raises(StandaloneSpeculatorError, match="not a language model: it drafts blocks"):
        speculator(mx.array([[1, 2, 3]]))


def test_borrowed_weights_are_not_parameters(speculator: DFlashLaguna) -> None:
    assert not [name for name, _ in tree_flatten(speculator.parameters()) if "embed" in name or "head" in name]


def lazy(config: dict[str, Any]) -> tuple[DFlashLaguna, dict[str, mx.array]]:
    """A network and published tensors of any size, none of them ever evaluated."""
    network = DFlashLaguna(SpeculatorConfig.from_dict(config), embed=mx.array, head=mx.array)
    return network, {name: mx.zeros(shape, mx.bfloat16) for name, shape in speculator_tensors(config).items()}


def test_the_published_tensors_of_xs_2_1_load_strictly() -> None:
    network, tensors = lazy(XS_2_1_DFLASH)
    assert len(tensors) == 58 == 10 * 5 + 5 + 3
    assert tensors["layers.4.self_attn.qkv_proj.weight"].shape == (10240, 2048)
    assert tensors["layers.0.self_attn.g_proj.weight"].shape == (64, 2048)
    assert tensors["fc.weight"].shape == (2048, 10240)
    network.load_weights(list(network.sanitize(tensors).items()), strict=True)
    del tensors["layers.2.mlp.up_proj.weight"]
    with pytest.raises(ValueError, match=r"Missing 1 parameters:\s+layers.2.mlp.up_proj.weight"):
        network.load_weights(list(network.sanitize(tensors).items()), strict=True)


def test_the_published_tensors_of_s_2_1_load_strictly() -> None:
    network, tensors = lazy(S_2_1_DFLASH)
    assert len(tensors) == 69 == 10 * 6 + 6 + 3
    assert tensors["layers.5.self_attn.qkv_proj.weight"].shape == (11264, 3072)
    assert tensors["fc.weight"].shape == (3072, 18432)
    network.load_weights(list(network.sanitize(tensors).items()), strict=True)


def test_split_projections_load_as_the_fused_one_does() -> None:
    network, tensors = lazy(SPECULATOR)
    split = network.sanitize(tensors)
    assert "layers.0.self_attn.qkv_proj.weight" not in split
    assert split["layers.0.self_attn.q_proj.weight"].shape == (64, 32)
    assert network.sanitize(split).keys() == split.keys()
    network.load_weights(list(split.items()), strict=True)


def test_a_quantised_fused_projection_is_split_with_its_scales() -> None:
    network, _ = lazy(SPECULATOR)
    fused_weight = mx.random.normal((128, 32), key=mx.random.key(1))
    packed = dict(zip(("weight", "scales", "biases"), mx.quantize(fused_weight, 32, 8), strict=True))
    tensors = {f"layers.0.self_attn.qkv_proj.{name}": value for name, value in packed.items()}
    split = network.sanitize(tensors)
    parts = [
        mx.dequantize(*(split[f"layers.0.self_attn.{name}_proj.{kind}"] for kind in packed), group_size=32, bits=8)
        for name in "qkv"
    ]
    assert [part.shape[0] for part in parts] == [64, 32, 32]
    whole = mx.dequantize(*packed.values(), group_size=32, bits=8)
    np.testing.assert_array_equal(np.array(mx.concatenate(parts)), np.array(whole))


def test_no_draft_layer_is_wider_than_the_parameters() -> None:
    def head(x: mx.array) -> mx.array:
        return x

    embed = nn.Embedding(97, 32)
    embed.set_dtype(mx.bfloat16)
    network = DFlashLaguna(SpeculatorConfig.from_dict(SPECULATOR), embed=embed, head=head)
    settle(network, mx.bfloat16)
    rows = network.fuse([mx.array(tap).astype(mx.bfloat16) for tap in states(40)])
    caches = context(network, rows, [20, 21, 40])
    drafts = network.draft_block(mx.array([3]), [Row(0, 8, caches)])
    assert drafts.shape == (7, 32)
    assert {rows.dtype, drafts.dtype} == {mx.bfloat16}
    assert {array.dtype for cache in caches for array in cache.arrays} == {mx.bfloat16}
