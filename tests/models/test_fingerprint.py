"""A pair's name changes with everything that its numbers depend on, and with nothing else."""

from pathlib import Path

import pytest

from models.fingerprint import fingerprint


def folder(path: Path, **files: bytes) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name.replace("_", ".")).write_bytes(data)
    return path


def test_the_same_files_elsewhere_are_the_same_pair(tmp_path: Path) -> None:
    one = folder(tmp_path / "a", config_json=b"{}", model_safetensors=b"weights", notes_md=b"one")
    other = folder(tmp_path / "b", config_json=b"{}", model_safetensors=b"weights", notes_md=b"other")
    assert fingerprint([one], ["float32"]) == fingerprint([other], ["float32"])
    assert fingerprint([one], ["float32"]) != fingerprint([one], ["bfloat16"])
    assert fingerprint([one], []) != fingerprint([one, other], [])


@pytest.mark.parametrize("at", [0, 5_000_000, -1])
def test_a_change_at_either_end_or_in_the_middle_of_the_weights_makes_another(tmp_path: Path, at: int) -> None:
    weights = bytearray(10_000_000)
    one = folder(tmp_path / "a", model_safetensors=bytes(weights))
    weights[at] = 1
    other = folder(tmp_path / "b", model_safetensors=bytes(weights))
    assert fingerprint([one], []) != fingerprint([other], [])


@pytest.mark.parametrize("name", ["config_json", "chat_template_jinja", "tokenizer_json"])
def test_every_small_file_counts_whole(tmp_path: Path, name: str) -> None:
    one = folder(tmp_path / "a", **{name: b"x" * 5000 + b"1"})
    other = folder(tmp_path / "b", **{name: b"x" * 5000 + b"2"})
    assert fingerprint([one], []) != fingerprint([other], [])


def test_what_cannot_be_opened_as_a_file_counts_nothing(tmp_path: Path) -> None:
    one = folder(tmp_path / "a", config_json=b"{}")
    before = fingerprint([one], [])
    (one / "lost.json").symlink_to(tmp_path / "nowhere")
    (one / "folder.json").mkdir()
    assert fingerprint([one], []) == before


def test_a_template_of_its_own_for_tools_counts(tmp_path: Path) -> None:
    one = folder(tmp_path / "a", config_json=b"{}")
    before = fingerprint([one], [])
    (one / "additional_chat_templates").mkdir()
    (one / "additional_chat_templates" / "tool_use.jinja").write_text("x")
    assert fingerprint([one], []) != before
