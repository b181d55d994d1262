"""A target and the speculator published for it, both by name, from a hub on this machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from models.runtime import load_runtime
from tests.models.fake_hub import Hub, Repository, reached
from tests.models.tiny_checkpoint import SPECULATOR, write_pair
from tests.runtime.checkpoint_files import SPECIALS, write_tokenizer

WIDTH = 384
TARGET, PARTNER = "poolside/Laguna-XS-2.1-NVFP4-mlx", "poolside/Laguna-XS-2.1-DFlash-NVFP4"


def files(folder: Path) -> Repository:
    return Repository({"main": {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    dflash = SPECULATOR["dflash_config"] | {"mask_token_id": SPECIALS.index("〈|MASK|〉")}
    drafts = {"vocab_size": WIDTH, "draft_vocab_size": WIDTH, "dflash_config": dflash}
    target, speculator = write_pair(tmp_path / "written", speculator=drafts, vocab_size=WIDTH)
    write_tokenizer(target)
    with reached(monkeypatch, tmp_path / "cache") as hub:
        hub.repositories = {TARGET: files(target), PARTNER: files(speculator)}
        shutil.rmtree(tmp_path / "written")
        yield hub


def test_the_partner_comes_by_itself_and_the_next_time_from_the_cache(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_runtime(TARGET)
    assert (first.model_id, first.speculator_id, first.speculation_off, first.warnings) == (TARGET, PARTNER, None, ())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_runtime(TARGET).speculator_id == PARTNER


def test_a_partner_that_the_hub_does_not_have_is_done_without(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    del hub.repositories[PARTNER]
    runtime = load_runtime(TARGET)
    assert (runtime.speculator, runtime.speculator_id) == (None, None)
    assert runtime.speculation_off == f"its speculator {PARTNER} cannot be used; the server's log says why"
    assert runtime.warnings == ()
    assert f"the hub has no checkpoint '{PARTNER}'" in caplog.text


def test_none_asks_for_no_partner(hub: Hub) -> None:
    assert load_runtime(TARGET, "none").speculator is None
    assert not [path for _, path, _ in hub.asked if "DFlash" in path]


def test_another_partner_may_be_named_and_is_doubted(hub: Hub) -> None:
    other = "poolside/Laguna-XS-2.1-DFlash-INT4"
    hub.repositories[other] = hub.repositories[PARTNER]
    runtime = load_runtime(TARGET, other)
    assert runtime.speculator_id == other
    (warning,) = runtime.warnings
    assert "was trained for INT4 weights, and the target has NVFP4" in warning
    assert f"{PARTNER} is the one published for this target" in warning
