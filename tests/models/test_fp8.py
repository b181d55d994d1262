"""Weights published as 8-bit floats, packed again where that is asked for."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from models.checkpoint import load_target
from models.laguna import Laguna
from models.loading import Loading
from models.memory import NotEnoughMemory
from models.runtime import load_runtime
from tests.models.packed_layouts import MLP, ROUTED, Packer, Written, fp8, logits, nvfp4, where, write_both
from tests.models.published_packing import S_FP8, S_NVFP4, XS_FP8
from tests.runtime.checkpoint_files import write_tokenizer

REPACKED = Loading(fp8_bits=8)


def held(model: Laguna) -> int:
    """Bytes of all parameters."""
    flat = tree_flatten(model.parameters())
    assert isinstance(flat, list)
    return sum(value.nbytes for name, value in flat if "._" not in name)


def written(folder: Path, pattern: str, packer: Packer, settings: dict[str, Any], hidden_size: int = 128) -> Written:
    return write_both(folder, where((pattern, packer)), settings, hidden_size=hidden_size)


@pytest.mark.parametrize("hidden", [128, 192])
def test_each_weight_is_within_a_step_of_its_group(tmp_path: Path, hidden: int) -> None:
    both = written(tmp_path, MLP, fp8(128, 128), XS_FP8, hidden_size=hidden)
    exact, packed = load_target(both.plain, mx.float32), load_target(both.packed, mx.float32, REPACKED)
    stack, whole = packed.model.layers[2].mlp.switch_mlp.up_proj, exact.model.layers[2].mlp.switch_mlp.up_proj.weight
    assert isinstance(stack, QuantizedSwitchLinear)
    assert (stack.bits, stack.group_size, stack.mode) == (8, 64, "affine")
    again = mx.dequantize(stack.weight, stack.scales, stack.biases, 64, 8)
    groups, errors = (x.reshape(*x.shape[:-1], -1, 64) for x in (whole, mx.abs(again - whole)))
    step = (groups.max(axis=-1) - groups.min(axis=-1)) / 255
    assert bool(mx.all(errors.max(axis=-1) <= step * 1.01))
    assert 0 < np.median(np.abs(logits(packed) - logits(exact))) < 0.05


def test_they_take_little_more_than_half_of_what_they_take_multiplied_out(tmp_path: Path) -> None:
    folder = written(tmp_path, ROUTED, fp8(128, 128), S_FP8).packed
    exact, packed = (load_target(folder, mx.bfloat16, loading) for loading in (Loading(), REPACKED))
    experts = sum(module.weight.nbytes for _, module in exact.named_modules() if isinstance(module, SwitchLinear))
    assert held(exact) - held(packed) == experts * 15 // 32


def test_widths_that_do_not_fill_a_group_stay_multiplied_out(tmp_path: Path) -> None:
    both = written(tmp_path, MLP, fp8(128, 128), XS_FP8, hidden_size=160)
    packed = load_target(both.packed, mx.float32, REPACKED)
    assert type(packed.model.layers[2].mlp.switch_mlp.up_proj) is SwitchLinear
    assert isinstance(packed.model.layers[2].mlp.switch_mlp.down_proj, QuantizedSwitchLinear)


def test_nothing_but_8_bit_floats_is_packed_again(tmp_path: Path) -> None:
    folder = written(tmp_path, ROUTED, nvfp4, S_NVFP4).packed
    whole, same = (logits(load_target(folder, mx.float32, loading)) for loading in (Loading(), REPACKED))
    np.testing.assert_array_equal(whole, same)


@pytest.mark.parametrize(
    ("loading", "advised"), [(Loading(memory_limit=1e-6), True), (Loading(memory_limit=1e-6, fp8_bits=8), False)]
)
def test_where_they_do_not_fit_packing_them_is_advised(tmp_path: Path, loading: Loading, advised: bool) -> None:
    both = write_both(tmp_path, where((ROUTED, fp8(128, 128))), S_FP8, vocab_size=384)
    write_tokenizer(both.packed)
    with pytest.raises(NotEnoughMemory) as refused:
        load_runtime(str(both.packed), "none", loading)
    assert ("Take a smaller quantisation, --quantize-fp8 8, close" in str(refused.value)) is advised
