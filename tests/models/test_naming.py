"""One network, however its tensors are called."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from models.checkpoint import CheckpointError, load_target
from models.contract import Row
from models.laguna import Laguna
from models.naming import named
from tests.models.tiny_checkpoint import TARGET, write_pair

Tensors = dict[str, np.ndarray]
MLP = "model.layers.2.mlp"


def logits(model: Laguna, length: int = 40) -> np.ndarray:
    return np.array(model(mx.arange(length), [Row(0, length, model.make_caches(0))]).logits)


def rewritten(folder: Path, change: Callable[[Tensors], Tensors]) -> Path:
    write_pair(folder)
    tensors = change(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def as_transformers_holds_them(tensors: Tensors) -> Tensors:
    """Experts of a layer in two tensors, the shared expert in the plural, the router's bias in the router."""
    out = {name: value for name, value in tensors.items() if ".experts." not in name}
    for layer in range(1, 5):
        mlp = f"model.layers.{layer}.mlp"
        stacks = {
            projection: np.stack([tensors[f"{mlp}.experts.{expert}.{projection}_proj.weight"] for expert in range(4)])
            for projection in ("gate", "up", "down")
        }
        out[f"{mlp}.experts.gate_up_proj"] = np.concatenate([stacks["gate"], stacks["up"]], axis=1)
        out[f"{mlp}.experts.down_proj"] = stacks["down"]
        out[f"{mlp}.gate.e_score_correction_bias"] = tensors[f"{mlp}.experts.e_score_correction_bias"]
    return {name.replace(".shared_expert.", ".shared_experts."): value for name, value in out.items()}


def test_experts_in_one_tensor_load_as_those_in_many(tmp_path: Path, target: Laguna) -> None:
    fused = load_target(rewritten(tmp_path, as_transformers_holds_them), mx.float32)
    np.testing.assert_array_equal(logits(fused), logits(target))
    assert fused.model.layers[2].mlp.gate.e_score_correction_bias.dtype == mx.float32


@pytest.mark.parametrize("place", ["experts.", "gate.", ""])
def test_the_routers_bias_may_lie_with_the_experts_in_the_router_or_beside_both(
    tmp_path: Path, target: Laguna, place: str
) -> None:
    def moved(tensors: Tensors) -> Tensors:
        return {name.replace(".experts.e_score", f".{place}e_score"): value for name, value in tensors.items()}

    model = load_target(rewritten(tmp_path, moved), mx.float32)
    np.testing.assert_array_equal(logits(model), logits(target))


def test_fused_experts_in_another_order_are_refused_by_their_shapes(tmp_path: Path) -> None:
    def transposed(tensors: Tensors) -> Tensors:
        tensors = as_transformers_holds_them(tensors)
        tensors[f"{MLP}.experts.gate_up_proj"] = tensors[f"{MLP}.experts.gate_up_proj"].transpose(0, 2, 1).copy()
        return tensors

    with pytest.raises(CheckpointError, match=r"cannot be loaded: .*switch_mlp\.gate_proj"):
        load_target(rewritten(tmp_path, transposed))


def test_an_expert_that_is_missing_is_named(tmp_path: Path) -> None:
    def without(tensors: Tensors) -> Tensors:
        return {name: value for name, value in tensors.items() if name != f"{MLP}.experts.1.up_proj.weight"}

    with pytest.raises(CheckpointError, match=rf"{MLP}\.experts\.1\.up_proj\.weight: missing, though others have it"):
        load_target(rewritten(tmp_path, without))


def test_experts_that_differ_in_dtype_are_named(tmp_path: Path) -> None:
    def widened(tensors: Tensors) -> Tensors:
        name = f"{MLP}.experts.1.up_proj.weight"
        return tensors | {name: tensors[name].astype(np.float32)}

    with pytest.raises(CheckpointError, match=rf"{MLP}\.experts\.0\.up_proj\.weight: the experts of this layer differ"):
        load_target(rewritten(tmp_path, widened))


def test_naming_twice_changes_nothing(pair_folder: Path) -> None:
    tensors = mx.load(str(pair_folder / "model.safetensors"))
    assert isinstance(tensors, dict)
    once = named(tensors)
    assert named(once).keys() == once.keys()
    assert {name for name in once if f"{MLP}.switch_mlp" in name} == {
        f"{MLP}.switch_mlp.{projection}_proj.weight" for projection in ("gate", "up", "down")
    }


@pytest.mark.parametrize("stored", ["per-head", "per-element"])
@pytest.mark.parametrize("spelled", [True, "per-head", "per-element"])
def test_the_gates_tensor_decides_its_kind_and_a_contradiction_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stored: str, spelled: object
) -> None:
    write_pair(tmp_path, gating=stored)
    expected = logits(load_target(tmp_path, mx.float32))
    (tmp_path / "config.json").write_text(json.dumps(TARGET | {"gating": spelled}))
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(logits(load_target(tmp_path, mx.float32)), expected)
    meant = "per-head" if spelled is True else spelled
    assert (f"layer 0: gating is {meant} in the config, its tensor is {stored}" in caplog.text) == (meant != stored)


def test_a_gate_of_neither_kind_is_refused(tmp_path: Path) -> None:
    def cut(tensors: Tensors) -> Tensors:
        name = "model.layers.2.self_attn.g_proj.weight"
        return tensors | {name: tensors[name][:1]}

    with pytest.raises(CheckpointError, match=r"cannot be loaded: (?s:.)*model\.layers\.2\.self_attn\.g_proj"):
        load_target(rewritten(tmp_path, cut))
