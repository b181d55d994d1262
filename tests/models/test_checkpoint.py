"""Finding and loading: strict names, the run dtype, pairs that belong together, arrays that another thread may use."""

import json
import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model
from safetensors.numpy import load_file, save_file

from models.checkpoint import embedded_path, find_checkpoint, load_speculator, load_target, run_dtype
from models.config_fields import ConfigError
from models.contract import Row
from models.dflash_laguna import DFlashLaguna
from models.errors import CheckpointError, PairError
from models.finding import find_speculator
from models.generation import Generation, read_generation
from models.laguna import Laguna
from models.loading import Loading
from models.pairing import is_speculator
from models.progress import Progress
from models.settling import cast_parameters
from tests.models.closeness import assert_same
from tests.models.tiny_checkpoint import TARGET, write_pair


def logits(model: Laguna, length: int = 40) -> np.ndarray:
    return np.array(model(mx.arange(length), [Row(0, length, model.make_caches(0))]).logits)


def parameters(model: nn.Module) -> dict[str, mx.array]:
    flat = tree_flatten(model.parameters(), destination={})
    assert isinstance(flat, dict)
    return flat


def rewrite(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_the_same_files_load_here_and_in_mlx_lm_and_answer_alike(pair_folder: Path, target: Laguna) -> None:
    theirs, _ = load_model(pair_folder)
    theirs.set_dtype(mx.float32)
    expected = np.array(theirs(mx.arange(40)[None])[0])
    assert_same(logits(target), expected, 2e-5)


def test_parameters_have_the_run_dtype_and_the_routers_bias_is_exact(target: Laguna, pair_folder: Path) -> None:
    assert {value.dtype for value in parameters(target).values()} == {mx.float32}
    narrow = load_target(pair_folder, mx.bfloat16)
    kinds = {name: value.dtype for name, value in parameters(narrow).items()}
    assert kinds.pop("model.layers.1.mlp.gate.e_score_correction_bias") == mx.float32
    assert kinds["model.layers.1.mlp.gate.proj.weight"] == mx.bfloat16
    assert mx.float16 not in kinds.values()


@pytest.mark.parametrize(("device", "dtype"), [(mx.cpu, mx.float32), (mx.gpu, mx.bfloat16)])
def test_the_device_decides_the_run_dtype(
    monkeypatch: pytest.MonkeyPatch, device: mx.DeviceType, dtype: mx.Dtype
) -> None:
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device))
    assert run_dtype() == dtype


def test_packed_weights_keep_their_dtype() -> None:
    layer = nn.Linear(64, 64, bias=False).to_quantized(64, 4)
    cast_parameters(layer, mx.bfloat16)
    assert layer.weight.dtype == mx.uint32
    assert layer.scales.dtype == mx.bfloat16


def test_another_thread_may_run_what_was_loaded_here(target: Laguna, speculator: DFlashLaguna) -> None:
    shapes: list[tuple[int, ...]] = []

    def work() -> None:
        output = target(mx.arange(40), [Row(0, 40, target.make_caches(8))], taps=speculator.target_layer_ids)
        context = speculator.make_context()
        speculator.absorb(speculator.fuse(output.taps), [Row(0, 40, context)])
        drafts = speculator.draft_block(mx.array([3]), [Row(0, 8, context)])
        mx.eval(drafts)
        shapes.append(drafts.shape)
        mx.clear_streams()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shapes == [(7, 97)]


def test_a_wrapper_prefix_is_taken_off(pair_folder: Path, target: Laguna, tmp_path: Path) -> None:
    write_pair(tmp_path)
    tensors = load_file(pair_folder / "model.safetensors")
    rewrite(tmp_path, {f"language_model.{name}": value for name, value in tensors.items()})
    np.testing.assert_array_equal(logits(load_target(tmp_path, mx.float32)), logits(target))


def test_a_head_beside_a_tied_embedding_is_left_unread(tmp_path: Path, target: Laguna) -> None:
    write_pair(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(TARGET | {"tie_word_embeddings": True}))
    tied = load_target(tmp_path, mx.float32)
    assert "lm_head.weight" not in parameters(tied)
    states = mx.ones((1, 32))
    np.testing.assert_array_equal(np.array(tied.head(states)), np.array(target.model.embed_tokens.as_linear(states)))


def test_stacked_experts_and_a_linear_router_load_as_they_are(tmp_path: Path, target: Laguna) -> None:
    write_pair(tmp_path)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), parameters(target))
    np.testing.assert_array_equal(logits(load_target(tmp_path, mx.float32)), logits(target))


@pytest.mark.parametrize("router", ["gate", "gate.proj"])
def test_a_quantised_checkpoint_loads_with_a_bare_or_a_linear_router(tmp_path: Path, router: str) -> None:
    wide: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32, "moe_intermediate_size": 64}
    write_pair(tmp_path, **wide, shared_expert_intermediate_size=64)
    plain = load_target(tmp_path, mx.float32)
    nn.quantize(plain, group_size=64, bits=8)
    packed = {name.replace("mlp.gate.proj.", f"mlp.{router}."): value for name, value in parameters(plain).items()}
    mx.save_safetensors(str(tmp_path / "model.safetensors"), packed)
    packing = {"quantization": {"group_size": 64, "bits": 8}}
    config = TARGET | wide | packing | {"shared_expert_intermediate_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = load_target(tmp_path, mx.float32)
    assert isinstance(loaded.model.layers[1].mlp.gate.proj, nn.QuantizedLinear)
    np.testing.assert_array_equal(logits(loaded), logits(plain))


def test_a_gate_spelled_true_is_per_element_where_its_tensor_says_so(tmp_path: Path) -> None:
    write_pair(tmp_path, gating="per-element")
    expected = logits(load_target(tmp_path, mx.float32))
    (tmp_path / "config.json").write_text(json.dumps(TARGET | {"gating": True}))
    np.testing.assert_array_equal(logits(load_target(tmp_path, mx.float32)), expected)
    write_pair(tmp_path, gating=True)
    assert np.abs(logits(load_target(tmp_path, mx.float32)) - expected).max() > 0.1


@pytest.mark.parametrize("change", ["missing", "unknown", "misshapen"])
def test_names_and_shapes_are_strict(tmp_path: Path, change: str) -> None:
    write_pair(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.2.self_attn.g_proj.weight"
    match change:
        case "missing":
            del tensors[name]
        case "unknown":
            tensors["model.layers.2.self_attn.sinks"] = np.zeros(2, np.float16)
        case "misshapen":
            tensors[name] = np.zeros((3, 32), np.float16)
    rewrite(tmp_path, tensors)
    with pytest.raises(CheckpointError, match=r"cannot be loaded: (?s:.)*model\.layers\.2\.self_attn"):
        load_target(tmp_path, mx.float32)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has no weights: no file model"):
        load_target(tmp_path, mx.float32)


def test_a_folder_and_the_embedded_pair_are_found(pair_folder: Path) -> None:
    assert find_checkpoint(str(pair_folder)) == pair_folder
    assert embedded_path().name == "tiny"
    assert find_speculator(pair_folder) == pair_folder / "speculator"
    assert find_speculator(pair_folder / "speculator") is None
    assert is_speculator(pair_folder / "speculator")
    assert not is_speculator(pair_folder)


@pytest.mark.parametrize("name", ["no-such-model", "./nowhere", "/no/such/folder", "a/b/c"])
def test_what_is_neither_folder_nor_hub_id_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match="an existing folder, or a hub id owner/name"):
        find_checkpoint(name)


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not a checkpoint: it has no config.json"):
        find_checkpoint(str(tmp_path))


def test_a_folder_has_no_revisions(pair_folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"revision 'v2': only a hub id has revisions, and .* is a folder here"):
        find_checkpoint(str(pair_folder), "v2")
    with pytest.raises(CheckpointError, match="'laguna-tiny' is a folder here"):
        find_checkpoint("laguna-tiny", "v2")


def test_a_speculator_is_checked_before_its_weights_are_read(tmp_path: Path, target: Laguna) -> None:
    write_pair(tmp_path, speculator={"hidden_size": 64})
    (tmp_path / "speculator" / "model.safetensors").write_bytes(b"")
    with pytest.raises(PairError, match="its hidden_size is 64"):
        load_speculator(tmp_path / "speculator", target)


def test_sampling_defaults_and_the_union_of_end_ids_are_read(tmp_path: Path) -> None:
    write_pair(tmp_path, eos_token_id=5)
    assert read_generation(tmp_path) == Generation(1.0, 20, 1.0, 0.0, frozenset({2, 5, 24}))
    extra = {"do_sample": False, "default_chat_template_kwargs": {"enable_thinking": True}, "eos_token_id": [24]}
    (tmp_path / "generation_config.json").write_text(json.dumps(extra))
    read = read_generation(tmp_path)
    assert read == Generation(0.0, eos_ids=frozenset({5, 24}), chat_template_kwargs={"enable_thinking": True})
    (tmp_path / "generation_config.json").unlink()
    assert read_generation(tmp_path) == Generation(eos_ids=frozenset({5}))


def test_a_sampling_default_of_another_type_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"top_k": "20"}))
    with pytest.raises(ConfigError, match="generation config: top_k is '20'; it must be an integer of at least 0"):
        read_generation(tmp_path)


def test_loading_is_reported_in_bytes_up_to_what_the_network_holds(pair_folder: Path) -> None:
    steps: list[Progress] = []
    target = load_target(pair_folder, mx.float32, Loading(report=steps.append))
    assert {(step.phase, step.what) for step in steps} == {("load", "target")}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[-1].done, steps[-1].fraction) == (steps[-1].total, 1.0)
    assert steps[-1].total >= sum(value.nbytes for value in parameters(target).values())
    load_speculator(pair_folder / "speculator", target, mx.float32, Loading(report=steps.append))
    assert (steps[-1].what, steps[-1].fraction) == ("speculator", 1.0)


def test_loading_ends_when_its_report_raises(pair_folder: Path) -> None:
    class GivenUp(Exception):
        pass

    def give_up(_: Progress) -> None:
        raise GivenUp

    with pytest.raises(GivenUp):
        load_target(pair_folder, mx.float32, Loading(report=give_up))
