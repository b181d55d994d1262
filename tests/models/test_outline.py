"""What a checkpoint's matrices are packed as, told without reading them."""

import json
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import SwitchLinear

from models.checkpoint import open_target
from models.errors import CheckpointError
from models.outline import Packing, outline
from tests.models.packed_layouts import WIDE, Packer, integers, nvfp4, write_both
from tests.models.tiny_checkpoint import target_tensors, write_checkpoint, write_pair


def test_a_plain_pair_is_told_in_the_files_own_dtype(tmp_path: Path) -> None:
    found = outline(*write_pair(tmp_path))
    assert found.target == (
        Packing("attention", "float16", 25),
        Packing("experts", "float16", 12),
        Packing("shared expert", "float16", 12),
        Packing("router", "float16", 4),
        Packing("dense", "float16", 3),
        Packing("embedding", "float16", 1),
        Packing("head", "float16", 1),
    )
    assert found.speculator == (
        Packing("attention", "float16", 15),
        Packing("dense", "float16", 9),
        Packing("fusion", "float16", 1),
    )


def test_mlx_packings_are_told_module_by_module(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, WIDE, target_tensors(WIDE), 0)
    network = open_target(tmp_path)

    def choice(path: str, module: nn.Module) -> bool | dict[str, object]:
        if isinstance(module, SwitchLinear):
            return {"group_size": 32, "bits": 4, "mode": "mxfp4"}
        if isinstance(module, nn.Linear) and "self_attn" in path:
            return {"group_size": 64, "bits": 8 if "o_proj" in path else 6}
        return False

    nn.quantize(network, class_predicate=choice)
    parameters = tree_flatten(network.parameters(), destination={})
    assert isinstance(parameters, dict)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), parameters)
    settings = {"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}
    (tmp_path / "config.json").write_text(json.dumps(WIDE | settings))
    found = outline(tmp_path, None)
    assert [packing for packing in found.target if packing.kind in ("attention", "experts", "router")] == [
        Packing("attention", "affine 6 bit in 64s", 20),
        Packing("attention", "affine 8 bit in 64s", 5),
        Packing("experts", "mxfp4 4 bit in 32s", 12),
        Packing("router", "float16", 4),
    ]
    assert found.speculator == ()


@pytest.mark.parametrize(
    ("form", "packer", "told"),
    [
        ("pack-quantized", integers(4, 64), "affine 4 bit in 64s"),
        ("nvfp4-pack-quantized", nvfp4, "nvfp4 4 bit in 16s"),
    ],
)
def test_compressed_tensors_are_told_as_they_will_run(tmp_path: Path, form: str, packer: Packer, told: str) -> None:
    settings = {"quantization_config": {"quant_method": "compressed-tensors", "format": form}}
    written = write_both(tmp_path, lambda module: packer if ".experts." in module else None, settings)
    found = {(packing.kind, packing.form) for packing in outline(written.packed, None).target}
    assert {form for kind, form in found if kind == "experts"} == {told}
    assert ("shared expert", "bfloat16") in found


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    write_pair(tmp_path)
    tensors = mx.load(str(tmp_path / "model.safetensors"))
    assert isinstance(tensors, dict)
    del tensors["model.layers.2.self_attn.o_proj.weight"]
    mx.save_safetensors(str(tmp_path / "model.safetensors"), tensors)
    with pytest.raises(ValueError, match=r"layers\.2\.self_attn\.o_proj"):
        outline(tmp_path, None)


def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(CheckpointError, match="hold no safetensors header"):
        outline(tmp_path, None)
