"""What a process kept is resumed by the next one, from disk, bit for bit; what is damaged there costs time alone."""

import errno
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from models.cache import FullCache, WindowCache
from models.decode import disk as disk_module
from models.decode import folder as folder_module
from models.decode.archive import ArchiveError, Label, Packed, Part, Stretch, read, read_label, written
from models.decode.batch import Batch
from models.decode.disk import Disk
from models.decode.folder import Folder
from models.decode.session import Request, Sampling, Session, Speculation
from models.decode.shelf import ShelvedStore
from tests.decode.random_pair import LARGE, PROMPT, SAMPLINGS, Pair, asked
from tests.decode.scripted import run_all, text


def process(
    pair: Pair, folder: Path, requests: Sequence[Request], budget: int = LARGE
) -> list[tuple[Session, list[int]]]:
    """A server's life: a store with nothing in memory, some requests one after another, and an orderly end."""
    store = ShelvedStore(LARGE, Disk(Folder(folder / "model", budget), "model"))
    answers = []
    for request in requests:
        batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
        session = batch.add(request)
        answers.append((session, text(run_all(batch)[session])))
        store.check()
    store.close()
    return answers


def cold(pair: Pair, request: Request) -> tuple[Session, list[int]]:
    batch = Batch(pair.target, pair.speculator, prefill_chunk=32)
    session = batch.add(request)
    return session, text(run_all(batch)[session])


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_a_restart_goes_on_where_the_last_process_ended(
    pair: Pair, tmp_path: Path, sampling: Sampling, speculation: Speculation
) -> None:
    first = asked(PROMPT, sampling, speculation=speculation, marks=[40, 100])
    ((_, said),) = process(pair, tmp_path, [first])
    onwards = asked((*PROMPT, *said, 5, 6), sampling, speculation=speculation)
    ((session, again),) = process(pair, tmp_path, [onwards])
    plain, wanted = cold(pair, onwards)
    assert again == wanted
    assert session.stats.cached_tokens == len(PROMPT) + len(said) - 1
    assert session.stats.accepted_by_depth == plain.stats.accepted_by_depth
    edited = asked((*PROMPT[:60], 1, 2, 3), sampling, speculation=speculation)
    ((session, again),) = process(pair, tmp_path, [edited])
    assert again == cold(pair, edited)[1]
    assert session.stats.cached_tokens == 40


def test_a_session_waits_for_the_disk_while_others_go_on(pair: Pair, tmp_path: Path) -> None:
    process(pair, tmp_path, [asked(PROMPT, marks=[100])])
    store = ShelvedStore(LARGE, Disk(Folder(tmp_path / "model", LARGE), "model"))
    batch = Batch(pair.target, pair.speculator, prefix=store, prefill_chunk=32)
    requests = [asked([7, 8, 9]), asked(PROMPT), asked((*PROMPT[:100], 3))]
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    store.close()
    assert [session.stats.cached_tokens for session in sessions] == [0, 100, 100]
    for session, request in zip(sessions, requests, strict=True):
        assert text(got[session]) == cold(pair, request)[1]


@pytest.fixture
def written_folder(pair: Pair, tmp_path: Path) -> Path:
    process(pair, tmp_path, [asked(PROMPT, marks=[40, 100])])
    return tmp_path


def resumed(pair: Pair, folder: Path) -> int:
    ((session, said),) = process(pair, folder, [asked(PROMPT)])
    assert said == cold(pair, asked(PROMPT))[1]
    return session.stats.cached_tokens


def files(folder: Path) -> list[Path]:
    return sorted((folder / "model").iterdir(), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("at", [0.0, 0.01, 0.3, 0.9, 1.0])
def test_a_file_with_one_byte_changed_is_not_resumed_from(pair: Pair, written_folder: Path, at: float) -> None:
    for path in files(written_folder):
        data = bytearray(path.read_bytes())
        data[min(int(at * len(data)), len(data) - 1)] ^= 64
        path.write_bytes(data)
    assert resumed(pair, written_folder) == 0
    assert resumed(pair, written_folder) == len(PROMPT) - 1, "the whole files that replaced them are"


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_not_resumed_from(pair: Pair, written_folder: Path, kept: float) -> None:
    for path in files(written_folder):
        path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert resumed(pair, written_folder) == 0


def test_being_killed_between_any_two_writes_leaves_what_was_written_before(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[Label] = []

    def noted(stretch: Stretch, key: str) -> list[bytes]:
        order.append(stretch.label)
        return written(stretch, key)

    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "written", noted)
        process(pair, tmp_path / "whole", [asked(PROMPT, marks=[40, 100])])
    found = []
    for count in range(len(order) + 1):
        killed = tmp_path / str(count)
        shutil.copytree(tmp_path / "whole", killed)
        for label in order[count:]:
            path = killed / "model" / f"{label.name}.kv"
            path.rename(path.with_suffix(".part"))
        found.append(resumed(pair, killed))
    assert found == [0, 40, 100, 100]


@pytest.mark.parametrize(("share", "resumed_at"), [(1.0, 100), (0.85, 100), (0.75, 40), (0.5, 40), (0.1, 0)])
def test_a_store_with_less_room_takes_as_much_of_a_timeline_as_fits(
    written_folder: Path, share: float, resumed_at: int
) -> None:
    disk = Disk(Folder(written_folder / "model", LARGE), "model")
    stores = [ShelvedStore(LARGE, disk)]
    for _ in range(2):
        fetch = stores[-1].fetch(PROMPT, drafting=True)
        assert fetch is not None
        fetch.take()
        stores[-1].check()
        stores.append(ShelvedStore(int(share * stores[0].nbytes), disk))
    assert stores[1].find(PROMPT, drafting=True).offset == resumed_at
    disk.close()


def test_another_models_files_are_not_looked_at(pair: Pair, written_folder: Path) -> None:
    store = ShelvedStore(LARGE, Disk(Folder(written_folder / "model", LARGE), "another"))
    assert store.fetch(PROMPT, drafting=False) is None
    store.close()


def test_a_full_disk_is_told_and_costs_nothing_else(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> list[bytes]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk_module, "written", full)
    with caplog.at_level(logging.WARNING):
        process(pair, tmp_path, [asked(PROMPT), asked(PROMPT)])
    assert "No space left on device" in caplog.text
    assert files(tmp_path) == []


def test_files_used_longest_ago_go_first(pair: Pair, tmp_path: Path) -> None:
    process(pair, tmp_path, [asked(PROMPT, marks=[40])])
    size = sum(path.stat().st_size for path in files(tmp_path))
    for path in files(tmp_path):
        os.utime(path, (1, 1))
    others = [asked([branch] * 150, marks=[40]) for branch in (3, 4)]
    process(pair, tmp_path, others, budget=int(2.2 * size))
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 2.2 * size
    assert resumed(pair, tmp_path) == 0


def test_a_beginning_that_is_resumed_from_memory_does_not_grow_old_on_disk(pair: Pair, tmp_path: Path) -> None:
    """Without it, nothing that goes on from it could be read."""
    process(pair, tmp_path, [asked(PROMPT[:40], marks=[39])])
    for path in files(tmp_path):
        os.utime(path, (1, 1))
    size = sum(path.stat().st_size for path in files(tmp_path))
    forks = [asked((*PROMPT[:40], *[branch] * 20)) for branch in range(3, 9)]
    process(pair, tmp_path, forks, budget=int(3.5 * size))
    assert len(files(tmp_path)) <= len(forks), "some had to go"
    ((session, _),) = process(pair, tmp_path, [forks[-1]])
    assert session.stats.cached_tokens == 39


def test_more_than_may_wait_is_not_written(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MOST_WAITING", 10)
    process(pair, tmp_path, [asked(PROMPT)])
    assert files(tmp_path) == []


def test_what_is_written_is_read_and_its_label_too(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype=np.float32)
    part = Part("whole", 3, 2, 5, (Packed("mlx.core.float32", (1, 1, 3, 2), numbers.tobytes()),))
    stretch = Stretch(Label("ab", "", 2, 5, True, False), np.arange(3, dtype=np.int32).tobytes(), (part,))
    path = tmp_path / "ab.kv"
    path.write_bytes(b"".join(written(stretch, "mine")))
    assert read(path, "mine") == stretch
    assert read_label(path, "mine") == stretch.label
    with pytest.raises(ArchiveError, match=r"ab\.kv: it belongs to another model"):
        read(path, "yours")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ArchiveError, match=r"ab\.kv: its header was changed or cut short"):
        read_label(path, "mine")
    path.write_bytes(b"hello")
    with pytest.raises(ArchiveError, match=r"ab\.kv: it is no file of the prefix cache"):
        read_label(path, "mine")


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_rows_of_every_run_dtype_survive(dtype: mx.Dtype, tmp_path: Path) -> None:
    rows = mx.random.normal((1, 2, 20, 4), key=mx.random.key(1)).astype(dtype)
    caches = [FullCache(), WindowCache(6)]
    for cache in caches:
        cache.update(rows, -rows)
    first = ShelvedStore(LARGE, Disk(Folder(tmp_path, LARGE), "m"))
    first.keep(range(20), caches, [])
    first.spill(range(20))
    first.close()
    second = ShelvedStore(LARGE, Disk(Folder(tmp_path, LARGE), "m"))
    fetch = second.fetch(range(30), drafting=False)
    assert fetch is not None
    fetch.take()
    second.check()
    mark = second.find(range(30), drafting=False).mark
    assert mark is not None
    fresh = [FullCache(), WindowCache(6)]
    second.restore(mark, fresh, [])
    for old, new in zip(caches, fresh, strict=True):
        for before, after in zip(*(cache.snapshot(0, cache.offset).arrays for cache in (old, new)), strict=True):
            assert after.dtype == dtype
            assert mx.array_equal(before, after)
    second.close()
