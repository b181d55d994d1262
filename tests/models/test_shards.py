"""Files that are not whole are found before anything is loaded, and named."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from models.checkpoint import find_checkpoint
from models.shards import DamagedFile, Tensor, check_files, damaged, missing, read_header

SHARDS = [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards, an index and a configuration."""
    (tmp_path / "config.json").write_text("{}")
    for index, name in enumerate(SHARDS):
        save_file({f"t{index}": np.zeros((4, index + 1), np.float16)}, tmp_path / name)
    weight_map = {f"t{index}": name for index, name in enumerate(SHARDS)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


def test_whole_files_pass_and_their_tensors_are_read_off(folder: Path) -> None:
    check_files(folder)
    for index, name in enumerate(SHARDS):
        assert read_header(folder / name) == {f"t{index}": Tensor("F16", (4, index + 1), 8 * (index + 1))}


def test_the_embedded_pair_is_whole() -> None:
    tensors = read_header(find_checkpoint("laguna-tiny") / "model.safetensors")
    assert tensors["model.norm.weight"].dtype == "F16"


@pytest.mark.parametrize("cut", [1, 7, 8, 40, 80])
def test_a_shard_that_is_cut_short_is_named(folder: Path, cut: int) -> None:
    shard = folder / SHARDS[1]
    whole = shard.read_bytes()
    for data in (whole[:-cut], whole[:cut], whole + b"0" * cut):
        shard.write_bytes(data)
        with pytest.raises(DamagedFile, match=SHARDS[1]):
            find_checkpoint(str(folder))


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"a": 1}',
        b'{"a": {"dtype": "F16", "shape": [3], "data_offsets": [0]}}',
        b'{"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F16", "shape": null, "data_offsets": [0, 4]}}',
        b"\xff\xfe",
    ],
)
def test_a_header_of_another_form_is_named(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"0000")
    with pytest.raises(DamagedFile, match=r"model\.safetensors: its safetensors header does not parse"):
        read_header(path)


def test_a_shard_that_the_index_names_must_be_there(folder: Path) -> None:
    (folder / SHARDS[2]).unlink()
    with pytest.raises(DamagedFile, match=f"{SHARDS[2]}: it is missing, and other files of the checkpoint name it"):
        find_checkpoint(str(folder))


def test_a_shard_that_its_sisters_count_must_be_there_without_an_index_too(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    (folder / SHARDS[0]).unlink()
    assert missing(folder) == [folder / SHARDS[0]]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("text", ['{"a": ', "", "[]", "\udc00"])
def test_json_that_does_not_parse_is_named(folder: Path, name: str, text: str) -> None:
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DamagedFile, match=rf"/{name}: .*; fetch or copy it again"):
        find_checkpoint(str(folder))


def test_every_damage_is_told_and_the_others_are_whole(folder: Path) -> None:
    (folder / SHARDS[0]).write_bytes(b"")
    (folder / SHARDS[1]).unlink()
    (folder / SHARDS[1]).symlink_to(folder / "gone")
    (folder / "config.json").write_text("")
    assert {damage.file.name for damage in damaged(folder)} == {"config.json", SHARDS[0], SHARDS[1]}


def test_json_that_nobody_reads_may_be_anything(folder: Path) -> None:
    (folder / "modules.json").write_text("[]")
    (folder / "notes.json").write_text("no JSON")
    check_files(folder)
