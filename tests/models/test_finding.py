"""The speculator that `--speculator` means, found and checked before a weight is read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from models.checkpoint import EMBEDDED, embedded_path, find_checkpoint
from models.errors import CheckpointError, PairError, SpeculatorKindError
from models.finding import Choice, choose
from tests.models.published import XS_2_SPECULATOR
from tests.models.tiny_checkpoint import SPECULATOR, TARGET

PUBLISHED = "poolside/Laguna-XS-2.1-DFlash"


def config(folder: Path, raw: dict[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return config(tmp_path / "Laguna-XS-2.1", TARGET)


@pytest.fixture
def speculator(tmp_path: Path) -> Path:
    return config(tmp_path / "cache" / "drafts", SPECULATOR)


def never(name: str) -> Path:
    """A hub that must not be asked."""
    assert Path(name).is_dir(), f"{name} was asked for"
    return Path(name)


def only(name: str, folder: Path) -> Callable[[str], Path]:
    """A hub that has one checkpoint."""

    def fetch(asked: str) -> Path:
        if asked != name:
            raise CheckpointError(f"the hub has no checkpoint {asked!r}")
        return folder

    return fetch


def test_none_looks_for_nothing(target: Path) -> None:
    config(target / "speculator", SPECULATOR)
    assert choose("none", "", target, never) == Choice(why_none="the server runs without a speculator")


def test_the_checkpoints_own_comes_first(target: Path, tmp_path: Path) -> None:
    inside = config(target / "speculator", SPECULATOR)
    config(tmp_path / "Laguna-XS-2.1-DFlash", SPECULATOR)
    found = choose("auto", "", target, never)
    assert (found.folder, found.name, found.guessed, found.warnings) == (inside, "Laguna-XS-2.1/speculator", False, ())


def test_then_the_one_in_a_folder_beside_it(target: Path, tmp_path: Path) -> None:
    config(tmp_path / "Laguna-XS-2.1-DFlash-INT4", SPECULATOR)
    beside = config(tmp_path / "Laguna-XS-2.1-DFlash", SPECULATOR)
    found = choose("auto", "", target, never)
    assert (found.folder, found.name, found.guessed) == (beside, "Laguna-XS-2.1-DFlash", True)


@pytest.mark.parametrize("given", ["", "poolside/Laguna-XS-2.1"])
def test_then_the_published_one(target: Path, speculator: Path, given: str) -> None:
    found = choose("auto", given, target, only(PUBLISHED, speculator))
    assert (found.folder, found.name, found.guessed, found.warnings) == (speculator, PUBLISHED, True, ())


def test_what_the_hub_calls_its_snapshot_is_not_taken_for_a_neighbour(tmp_path: Path, speculator: Path) -> None:
    snapshots = tmp_path / "models--poolside--Laguna-XS-2.1" / "snapshots"
    folder = config(snapshots / "0a1b", TARGET)
    config(snapshots / "0a1b-DFlash", SPECULATOR)
    assert choose("auto", "poolside/Laguna-XS-2.1", folder, only(PUBLISHED, speculator)).folder == speculator


def test_one_that_cannot_be_had_is_done_without_and_the_reason_is_told(target: Path) -> None:
    found = choose("auto", "", target, only("another/one", target))
    assert found.folder is None
    assert found.why_none == f"its speculator {PUBLISHED} cannot be used; the server's log says why"
    assert found.warnings == ()
    assert f"the hub has no checkpoint '{PUBLISHED}'" in found.trouble


def test_a_published_one_that_does_not_fit_is_done_without_too(target: Path, tmp_path: Path) -> None:
    other = config(tmp_path / "cache" / "other", SPECULATOR | {"hidden_size": 64})
    found = choose("auto", "", target, only(PUBLISHED, other))
    assert found.folder is None
    assert "its hidden_size is 64, the target has 32" in found.trouble


def test_what_clients_are_told_of_a_damaged_one_holds_no_path(target: Path, tmp_path: Path) -> None:
    other = config(tmp_path / "cache" / "other", SPECULATOR)
    (other / "config.json").write_text("{")
    found = choose("auto", "", target, only(PUBLISHED, other))
    assert (found.folder, str(other) in found.trouble) == (None, True)
    assert not [said for said in (found.why_none or "", *found.warnings) if str(tmp_path) in said]


def test_a_path_on_another_machine_is_no_name_of_a_speculator(target: Path, tmp_path: Path) -> None:
    drafts = config(tmp_path / "drafts", SPECULATOR | {"_name_or_path": "/home/someone/Laguna-S-2.1-DFlash-FP8/"})
    (first, *_) = choose(str(drafts), "", target, Path).warnings
    assert first.startswith("The speculator Laguna-S-2.1-DFlash-FP8 was trained for Laguna-S-2.1")


def test_surroundings_that_may_not_be_listed_hold_no_speculator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Path
) -> None:
    def forbidden(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    folder = config(tmp_path / "mine", TARGET)
    monkeypatch.setattr(Path, "iterdir", forbidden)
    assert "no speculator beside it" in (choose("auto", "", folder, never).why_none or "")


def test_one_that_was_asked_for_is_refused_instead(target: Path, tmp_path: Path) -> None:
    other = config(tmp_path / "other", SPECULATOR | {"hidden_size": 64})
    with pytest.raises(PairError, match="its hidden_size is 64"):
        choose(str(other), "", target, Path)
    with pytest.raises(PairError, match="its hidden_size is 64"):
        choose("auto", "", other.rename(target / "speculator").parent, never)
    with pytest.raises(CheckpointError, match="the hub has no checkpoint 'me/drafts'"):
        choose("me/drafts", "", target, only(PUBLISHED, target))


def test_a_name_that_means_nothing_is_said_to_be_the_speculators(target: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no speculator 'nope': give .*folder.*owner/name.*'auto'.*'none'"):
        choose("nope", "", target, find_checkpoint)


def test_the_embedded_speculator_is_called_after_its_target() -> None:
    assert choose("auto", EMBEDDED, embedded_path(), never).name == "laguna-tiny/speculator"


def test_the_one_of_xs_2_is_refused_by_its_kind(target: Path, tmp_path: Path) -> None:
    other = config(tmp_path / "Laguna-XS.2-speculator.dflash", XS_2_SPECULATOR)
    with pytest.raises(SpeculatorKindError, match="another architecture"):
        choose(str(other), "", target, Path)


def test_a_checkpoint_of_no_name_has_no_published_one(tmp_path: Path) -> None:
    found = choose("auto", "", config(tmp_path / "mine", TARGET), never)
    assert (found.folder, found.warnings) == (None, ())
    assert "no speculator beside it" in (found.why_none or "")


def test_a_speculator_for_another_precision_is_used_and_doubted(target: Path, tmp_path: Path) -> None:
    drafts = config(tmp_path / "Laguna-XS-2.1-DFlash-INT4", SPECULATOR)
    found = choose(str(drafts), "", target, Path)
    assert found.folder == drafts
    assert ["was trained for INT4 weights" in warning for warning in found.warnings] == [True]


def test_a_card_tells_what_a_folder_is(tmp_path: Path, speculator: Path) -> None:
    folder = config(tmp_path / "mine", TARGET)
    (folder / "README.md").write_text("---\nbase_model: poolside/Laguna-XS-2.1\n---\n")
    (speculator / "README.md").write_text("---\nbase_model:\n- poolside/Laguna-XS-2.1-FP8\n---\n")
    found = choose("auto", "", folder, only(PUBLISHED, speculator))
    assert found.folder == speculator
    assert choose(str(speculator), "", folder, Path).warnings[0].startswith("The speculator poolside/Laguna-XS-2.1-FP8")
