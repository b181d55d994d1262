"""Target, speculator and their files: sound, doubtful, broken."""

import json
import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from models.checkpoint import EMBEDDED
from tests.doctor.conftest import Copied, changed, examined, told
from tests.models.full_size import CASES, write
from tests.models.tiny_checkpoint import write_pair
from tests.runtime.checkpoint_files import write_tokenizer


def test_nothing_is_wrong_with_a_sound_pair(sound: Path) -> None:
    findings = examined(sound)
    assert {finding.area for finding in findings if finding.level != "ok"} <= {"machine"}
    assert told(findings, "target")[1].startswith(str(sound))
    assert any("5 layers, 2 of them with a window of 16" in finding.said for finding in findings)
    assert any("blocks of 8 rows, reads target layers 0, 2, 4" in finding.said for finding in findings)
    assert told(findings, "pair") == ("ok", "hidden size 32, 384 tokens and 5 layers agree -> ")
    assert "every tensor has its place; float16: attention 25, experts 12" in told(findings, "weights")[1]


@pytest.mark.parametrize("name", ["/no/such/folder", "someone/Laguna-unheard-of", "neither", ""])
def test_a_target_that_is_not_here_fails_and_the_machine_is_still_looked_at(name: str) -> None:
    findings = examined(name)
    assert told(findings, "target")[0] == "fail"
    assert told(findings, "versions")[0] == "ok"


def test_a_folder_that_is_no_checkpoint_fails(tmp_path: Path) -> None:
    level, said = told(examined(tmp_path), "target")
    assert level == "fail"
    assert said.startswith(f"{tmp_path} is not a checkpoint: it has no config.json -> name a folder, or fetch")


def test_a_speculator_named_as_the_target_is_told_so(sound: Path) -> None:
    level, said = told(examined(sound / "speculator"), "target")
    assert level == "fail"
    assert "holds a speculator: name its target first" in said


def test_a_field_that_will_not_do_is_named(copied: Copied) -> None:
    folder = copied()
    changed(folder / "config.json", num_attention_heads_per_layer=[3])
    findings = examined(folder)
    level, said = told(findings, "target")
    assert (level, "num_attention_heads_per_layer" in said) == ("fail", True)
    assert told(findings, "speculator")[0] == "warn"
    assert told(findings, "template")[0] == "ok"


def test_an_attention_factor_that_is_not_used_is_a_warning(copied: Copied) -> None:
    folder = copied()
    ropes = json.loads((folder / "config.json").read_text())["rope_parameters"]
    ropes["full_attention"]["attention_factor"] = 1.0
    changed(folder / "config.json", rope_parameters=ropes)
    level, said = told(examined(folder), "target")
    assert level == "warn"
    assert "1.0 in the config and 1.1386 derived" in said
    assert "the derived one is used" in said
    assert "the config's is used" in told(examined(folder, attention_factor="config"), "target")[1]


def test_without_a_speculator_plain_decoding_is_a_warning_unless_asked_for(copied: Copied) -> None:
    folder = copied()
    shutil.rmtree(folder / "speculator")
    level, said = told(examined(folder), "speculator")
    assert level == "warn"
    assert "decoded plainly" in said
    assert told(examined(folder, "none"), "speculator")[0] == "ok"


def test_a_speculator_that_is_not_here_fails(sound: Path) -> None:
    level, said = told(examined(sound, "someone/nothing"), "speculator")
    assert level == "fail"
    assert "someone/nothing: the cache in" in said


def test_a_speculator_of_another_target_fails_with_every_fact(sound: Path, tmp_path: Path) -> None:
    write_pair(tmp_path)
    level, said = told(examined(sound, tmp_path / "speculator"), "speculator")
    assert level == "fail"
    assert "its vocab_size is 97, the target has 384" in said


def test_a_pair_whose_names_do_not_fit_is_a_warning(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "Laguna-XS-2.1-NVFP4")
    shutil.copytree(sound / "speculator", tmp_path / "Laguna-XS-2.1-DFlash-INT4")
    level, said = told(examined(tmp_path / "Laguna-XS-2.1-NVFP4", tmp_path / "Laguna-XS-2.1-DFlash-INT4"), "pair")
    assert level == "warn"
    assert "was trained for INT4 weights, and the target has NVFP4" in said


def test_a_mask_that_is_another_token_is_a_warning(copied: Copied) -> None:
    folder = copied()
    block = json.loads((folder / "speculator" / "config.json").read_text())["dflash_config"]
    changed(folder / "speculator" / "config.json", dflash_config=block | {"mask_token_id": 12})
    level, said = told(examined(folder), "pair")
    assert level == "warn"
    assert "mask_token_id is 12" in said


def test_a_speculator_is_told_as_it_would_be_quantised(sound: Path) -> None:
    wide = examined(EMBEDDED, quantize_speculator="4")
    assert any(finding.said == "affine 4 bit in 64s: attention 15, dense 9, fusion 1" for finding in wide)
    level, said = told(examined(sound, quantize_speculator="4"), "speculator")
    assert level == "warn"
    assert "linear layers of the speculator stay as they are" in said


@pytest.mark.parametrize("file", ["model.safetensors", "speculator/model.safetensors"])
def test_a_file_cut_short_fails_by_name(copied: Copied, file: str) -> None:
    folder = copied()
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2])
    findings = examined(folder)
    level, said = told(findings, "speculator" if "/" in file else "target")
    assert level == "fail"
    assert f"{folder / file}: {len(whole) // 2} bytes, where its header says {len(whole)}" in said
    assert told(findings, "template")[0] == "ok"


def test_a_shard_that_is_missing_fails_by_name(copied: Copied) -> None:
    folder = copied()
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    level, said = told(examined(folder), "target")
    assert level == "fail"
    assert "model-00002-of-00002.safetensors: it is missing" in said


def test_a_tensor_that_is_missing_fails_by_name(copied: Copied) -> None:
    folder = copied()
    tensors = mx.load(str(folder / "model.safetensors"))
    assert isinstance(tensors, dict)
    del tensors["model.norm.weight"]
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    level, said = told(examined(folder), "weights")
    assert (level, "model.norm.weight" in said) == ("fail", True)


def test_a_packing_that_does_not_load_fails_by_name(copied: Copied) -> None:
    folder = copied()
    changed(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    level, said = told(examined(folder), "weights")
    assert (level, "gptq" in said) == ("fail", True)


def test_a_published_pair_in_full_size_is_judged_from_its_headers(tmp_path: Path) -> None:
    names = {"Laguna-XS-2.1-NVFP4": "XS-2.1-NVFP4-mlx", "Laguna-XS-2.1-DFlash": "XS-2.1-DFlash"}
    for folder, name in names.items():
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, CASES[name].config, CASES[name].tensors(CASES[name].config))
    target, drafts = (tmp_path / folder for folder in names)
    findings = examined(write_tokenizer(target), drafts, memory_limit=64)
    assert "nvfp4 4 bit in 16s: experts 117" in told(findings, "weights")[1]
    assert any(finding.said == "bfloat16: attention 25, dense 15, fusion 1" for finding in findings)
    assert "trained for bf16 weights, and the target has NVFP4" in told(findings, "pair")[1]
    assert "the target's weights take 2" in next(finding.said for finding in findings if finding.area == "memory")
