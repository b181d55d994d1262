"""Fetching from a hub, against one on this machine: the transfer is huggingface_hub's own."""

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save

from models.checkpoint import find_checkpoint, locate_checkpoint
from models.errors import CheckpointError
from models.hub import (
    ClosedRepository,
    DiskFull,
    DownloadFailed,
    MissingRepository,
    MissingRevision,
    NotCached,
    cached,
    fetch,
    is_hub_id,
)
from models.progress import Progress
from models.shards import DamagedFile
from tests.models.fake_hub import Hub, Repository, commit_of, reached

REPO = "someone/Laguna-small"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def checkpoint() -> dict[str, bytes]:
    """Two shards of 200 and 100 kB, an index, configurations, and files that are not wanted."""
    shards = [save({f"t{i}": np.full(size, i, np.uint8)}) for i, size in enumerate((200_000, 100_000))]
    index = {"weight_map": {f"t{i}": name for i, name in enumerate(SHARDS)}}
    return {
        "config.json": b'{"architectures": ["LagunaForCausalLM"]}',
        "tokenizer.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors.index.json": json.dumps(index).encode(),
        **dict(zip(SHARDS, shards, strict=True)),
        "pytorch_model.bin": b"a pickle",
        "modeling_laguna.py": b"raise SystemExit",
        "README.md": b"# Laguna",
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with reached(monkeypatch, tmp_path / "cache") as hub:
        hub.repositories[REPO] = Repository({"main": checkpoint()})
        yield hub


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_a_checkpoint_needs_is_fetched_and_nothing_that_runs_code(hub: Hub) -> None:
    folder = fetch(REPO)
    assert names(folder) == checkpoint().keys() - {"pytorch_model.bin", "modeling_laguna.py"}
    assert {path.name: path.read_bytes() for path in folder.iterdir()}.items() <= checkpoint().items()


def test_what_is_in_the_cache_is_not_fetched_again(hub: Hub) -> None:
    first = fetch(REPO)
    hub.asked.clear()
    assert fetch(REPO) == first
    assert [path for _, path, _ in hub.asked if "/resolve/" in path] == []


def test_the_bytes_are_counted_up_to_their_sum(hub: Hub) -> None:
    steps: list[Progress] = []
    fetch(REPO, report=steps.append)
    wanted = sum(len(data) for name, data in checkpoint().items() if not name.endswith((".bin", ".py")))
    assert {(step.phase, step.what, step.total) for step in steps} == {("download", REPO, wanted)}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[-1].done, steps[-1].fraction) == (wanted, 1.0)
    assert len(steps) > 30


def test_a_download_ends_when_its_report_raises(hub: Hub) -> None:
    class GivenUp(Exception):
        pass

    def give_up(_: Progress) -> None:
        raise GivenUp

    with pytest.raises(GivenUp):
        fetch(REPO, report=give_up)


def test_a_cut_connection_is_taken_up_where_it_stopped(hub: Hub) -> None:
    hub.cut[SHARDS[0]] = 55_000
    steps: list[Progress] = []
    folder = fetch(REPO, report=steps.append)
    assert hub.downloads(SHARDS[0]) == [None, "bytes=50000-"]
    assert (folder / SHARDS[0]).read_bytes() == checkpoint()[SHARDS[0]]
    assert steps[-1].fraction == 1.0


def test_after_a_broken_run_whole_files_are_kept(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(progress: Progress) -> None:
        if progress.done > 150_000:
            raise ConnectionResetError("the line is dead")

    monkeypatch.setattr("models.hub.WORKERS", 1)
    with pytest.raises(DownloadFailed, match=f"{REPO} could not be fetched .*the line is dead.*start again"):
        fetch(REPO, report=give_up)
    hub.asked.clear()
    fetch(REPO)
    assert hub.downloads("config.json") == []
    assert hub.downloads(SHARDS[1]) == [None]


def test_a_revision_is_what_is_fetched(hub: Hub) -> None:
    hub.repositories[REPO].revisions["v2"] = checkpoint() | {"config.json": b'{"version": 2}'}
    assert json.loads((fetch(REPO, "v2") / "config.json").read_text()) == {"version": 2}
    assert fetch(REPO, commit_of("v2")) == fetch(REPO, "v2") != fetch(REPO)
    assert find_checkpoint(REPO, "v2") == fetch(REPO, "v2")


def test_a_missing_repository_revision_and_licence_have_names(hub: Hub) -> None:
    with pytest.raises(
        MissingRepository, match=r"no checkpoint 'someone/else', or it is private.*hf auth login.*HF_TOKEN"
    ):
        fetch("someone/else")
    with pytest.raises(MissingRevision, match=f"{REPO} has no revision 'v9': name a branch"):
        fetch(REPO, "v9")
    hub.repositories[REPO].gated = True
    with pytest.raises(ClosedRepository, match=rf"{REPO} is gated: accept its terms on {hub.url}/{REPO}, then log in"):
        fetch(REPO)


@pytest.mark.parametrize(("status", "error"), [(403, ClosedRepository), (500, NotCached)])
def test_a_hub_that_refuses_or_fails_is_said(hub: Hub, status: int, error: type[CheckpointError]) -> None:
    hub.status = status
    with pytest.raises(error, match=f"{REPO}.*the hub answered with status {status}"):
        fetch(REPO)


@pytest.mark.parametrize(
    ("status", "advice"), [(429, "wait some minutes"), (500, "try again later"), (418, "HF_ENDPOINT names it")]
)
def test_what_helps_is_said_by_the_hubs_status(hub: Hub, status: int, advice: str) -> None:
    hub.status = status
    with pytest.raises(NotCached, match=f"status {status}.*{advice}") as caught:
        fetch(REPO)
    assert "Start once with a network" not in str(caught.value)


@pytest.mark.parametrize("status", [None, 403, 500])
def test_without_the_hub_a_whole_snapshot_serves(hub: Hub, monkeypatch: pytest.MonkeyPatch, status: int | None) -> None:
    folder = fetch(REPO)
    if status is None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.status = status
    assert fetch(REPO) == folder
    assert fetch(REPO, commit_of("main")) == folder


def test_offline_the_cache_that_lacks_it_all_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotCached, match=rf"{REPO}: HF_HUB_OFFLINE is set, and the cache does not hold it.*hf download"):
        fetch(REPO)


def test_offline_what_a_snapshot_lacks_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    (fetch(REPO) / SHARDS[1]).unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotCached, match=rf"HF_HUB_OFFLINE is set, and the cache lacks {SHARDS[1]} of it"):
        fetch(REPO)


def test_a_hub_that_cannot_be_reached_is_no_obstacle_for_a_whole_snapshot(hub: Hub, tmp_path: Path) -> None:
    folder = fetch(REPO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
        assert fetch(REPO) == folder
        shutil.rmtree(tmp_path / "cache")
        with pytest.raises(
            NotCached, match=rf"{REPO}: the hub cannot be reached \(ConnectError\), and the cache does not"
        ):
            fetch(REPO)


def test_what_the_cache_holds_is_told_without_asking_the_hub(hub: Hub) -> None:
    with pytest.raises(NotCached, match=rf"^{REPO} at revision main: the cache in .* does not hold it$"):
        cached(REPO, "main")
    with pytest.raises(MissingRepository, match="is no name of a repository"):
        cached("someone/-")
    folder = fetch(REPO)
    hub.asked.clear()
    assert cached(REPO) == locate_checkpoint(REPO) == folder
    (folder / SHARDS[1]).unlink()
    with pytest.raises(NotCached, match=rf"lacks {SHARDS[1]} of it"):
        cached(REPO)
    assert hub.asked == []


def test_room_on_the_disk_is_checked_before_the_first_byte(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    with pytest.raises(
        DiskFull, match=r"0\.3 MB are still to be fetched, and the disk of .* has 0\.1 MB free: make room"
    ):
        fetch(REPO)
    assert hub.downloads(SHARDS[0]) == []


def test_a_disk_that_fills_up_on_the_way_is_said(hub: Hub) -> None:
    def full(_: Progress) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFull, match=r"the disk of .* is full; make room"):
        fetch(REPO, report=full)


def test_a_cache_that_cannot_be_written_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(DownloadFailed, match=r"Not a directory.*set HF_HOME to a folder of yours"):
        fetch(REPO)


def test_a_damaged_file_of_the_cache_is_fetched_again(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    folder = fetch(REPO)
    shard = (folder / SHARDS[0]).resolve()
    shard.write_bytes(shard.read_bytes()[:1000])
    hub.asked.clear()
    assert fetch(REPO) == folder
    assert (folder / SHARDS[0]).read_bytes() == checkpoint()[SHARDS[0]]
    assert hub.downloads(SHARDS[0]) == [None]
    assert f"{SHARDS[0]} of {REPO} is damaged in the cache (1000 bytes, where its header says" in caplog.text


def test_offline_nobody_misses_the_card(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch(REPO)
    (folder / "README.md").unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(REPO) == folder


def test_offline_a_damaged_file_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = (fetch(REPO) / SHARDS[0]).resolve()
    shard.write_bytes(shard.read_bytes()[:1000])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DamagedFile, match=rf"{SHARDS[0]}: 1000 bytes, where its header says 200072"):
        fetch(REPO)


def test_what_the_hub_itself_has_damaged_is_refused(hub: Hub) -> None:
    hub.repositories[REPO].revisions["main"]["tokenizer.json"] = b'{"model":'
    with pytest.raises(DamagedFile, match=r"tokenizer\.json: not JSON"):
        fetch(REPO)


def test_a_hub_id_is_spelled_owner_and_name() -> None:
    assert is_hub_id("poolside/Laguna-XS-2.1")
    assert [name for name in ("laguna", "./here", "../up", "a/b/c", "/a/b", "~/a", "a b/c") if is_hub_id(name)] == []
