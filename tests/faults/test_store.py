"""The disk under the prefix store fails in every way it can: that costs time, and no answer."""

import logging
import os
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.decode import disk as disk_module
from models.decode.archive import Stretch, written
from models.decode.batch import Batch
from models.decode.disk import Disk
from models.decode.folder import Folder
from models.decode.prefix import PrefixStore
from models.decode.trie import Node
from tests.decode.scripted import ScriptedSpeculator, ScriptedTarget, asked, blurred, decode, plainly
from tests.faults.tally import Tally
from tests.faults.timelines import LARGE, TIMELINE, found, stretch


def test_a_read_that_raises_is_an_empty_read_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    disk.put(TIMELINE)
    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "read", lambda *_: 1 / 0)
        assert found(disk, range(50)) == []
    assert found(disk, range(50)) == [TIMELINE]
    disk.close()
    tally.case("the disk: a read raises")


def test_a_write_that_raises_ends_neither_thread_nor_later_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "written", lambda *_: 1 / 0)
        disk.put(TIMELINE)
        assert found(disk, range(50)) == []
    other = stretch(range(3, 40))
    disk.put(other)
    assert found(disk, range(3, 40)) == [other]
    disk.close()
    tally.case("the disk: a write raises")


def test_a_disk_that_is_behind_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    goes_on = threading.Event()

    def stuck(stretch: Stretch, key: str) -> Iterator[bytes]:
        assert goes_on.wait(60)
        yield from written(stretch, key)

    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    monkeypatch.setattr(disk_module, "written", stuck)
    disk.put(TIMELINE)
    with caplog.at_level(logging.WARNING):
        disk.close(0.01)
    assert f"is behind: {TIMELINE.nbytes} bytes are not written" in caplog.text
    goes_on.set()
    disk.close()
    assert [path.suffix for path in (tmp_path / "m").iterdir()] == [".kv"]
    tally.case("the disk: it is behind at the end")


def test_a_start_leaves_alone_what_another_process_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slowly(stretch: Stretch, key: str) -> Iterator[bytes]:
        first, *others = written(stretch, key)
        yield first
        begun.set()
        assert goes_on.wait(60)
        yield from others

    slow = Disk(Folder(tmp_path / "m", LARGE), "m")
    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "written", slowly)
        slow.put(TIMELINE)
        assert begun.wait(60)
    (tmp_path / "m" / "left.part").write_bytes(b"of a process that died")
    quick = Disk(Folder(tmp_path / "m", LARGE), "m")
    quick.put(TIMELINE)
    assert found(quick, range(50)) == [TIMELINE]
    assert len(list((tmp_path / "m").glob("*.part"))) == 1
    with caplog.at_level(logging.WARNING):
        goes_on.set()
        slow.close()
    quick.close()
    assert caplog.records == []
    assert [path.suffix for path in (tmp_path / "m").iterdir()] == [".kv"]
    tally.case("the disk: two processes write the same")


def test_what_another_process_cut_elsewhere_is_found_by_its_own_words(tmp_path: Path, tally: Tally) -> None:
    first = Disk(Folder(tmp_path / "m", LARGE), "m")
    first.put(TIMELINE)
    assert found(first, range(50)) == [TIMELINE]
    beginning, second = stretch(range(20)), Disk(Folder(tmp_path / "m", LARGE), "m")
    label = replace(TIMELINE.label, parent=beginning.label.name, start=20)
    end = Stretch(label, TIMELINE.tokens[4 * 20 :], ())
    for part in (beginning, end):
        second.put(part)
    second.close()
    assert found(first, range(50)) == [end]
    assert found(first, range(50)) == [beginning, end]
    first.close()
    tally.case("the disk: two processes cut one timeline")


def test_a_folder_that_is_taken_away_costs_what_was_in_it(tmp_path: Path, tally: Tally) -> None:
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    disk.put(TIMELINE)
    assert found(disk, range(50)) == [TIMELINE]
    name = TIMELINE.label.name
    assert disk.knows(name, resumes=True, drafts=True)
    (tmp_path / "m").rename(tmp_path / "elsewhere")
    assert not disk.knows(name, resumes=True, drafts=True)
    assert found(disk, range(50)) == []
    disk.put(stretch(range(9)))
    assert found(disk, range(9)) == [stretch(range(9))], "the model's folder is made anew"
    assert (tmp_path / "m").stat().st_mode & 0o077 == 0
    disk.close()
    tally.case("the disk: its folder is gone")


def test_where_the_disk_itself_is_gone_nothing_is_written_in_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    mounted = tmp_path / "disk"
    disk = Disk(Folder(mounted / "m", LARGE), "m")
    mounted.rename(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        disk.put(TIMELINE)
        assert found(disk, range(50)) == []
    disk.close()
    assert "cannot be written" in caplog.text
    assert not mounted.exists()
    tally.case("the disk: it is gone")


def test_what_another_process_removed_is_written_again(tmp_path: Path, tally: Tally) -> None:
    first, second = (Disk(Folder(tmp_path / "m", LARGE), "m") for _ in range(2))
    first.put(TIMELINE)
    assert found(first, range(50)) == [TIMELINE]
    (path,) = (tmp_path / "m").iterdir()
    path.unlink()
    assert not first.knows(TIMELINE.label.name, resumes=True, drafts=True)
    first.put(TIMELINE)
    assert found(first, range(50)) == [TIMELINE]
    for disk in (first, second):
        disk.close()
    tally.case("the disk: another process removes a file")


def test_a_file_that_may_grow_no_further_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with caplog.at_level(logging.WARNING):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            disk.put(stretch(range(5000)))
            assert found(disk, range(5000)) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be written" in caplog.text
    assert list((tmp_path / "m").iterdir()) == []
    disk.put(stretch(range(5000)))
    assert len(found(disk, range(5000))) == 1
    disk.close()
    tally.case("the disk: it is full in the middle of a file")


def test_files_from_the_future_and_from_long_ago_are_kept_within_the_budget(tmp_path: Path, tally: Tally) -> None:
    timelines = [range(start, start + 50) for start in range(8)]
    for times in ((2**33, 2**33), (0, 0), (time.time(), time.time())):
        disk = Disk(Folder(tmp_path / "m", 2000), "m")
        for tokens in timelines:
            disk.put(stretch(tokens))
        found(disk, range(50))
        disk.close()
        files = list((tmp_path / "m").iterdir())
        assert 0 < sum(path.stat().st_size for path in files) <= 2000
        assert {path.stem for path in files} >= {stretch(tokens).label.name for tokens in timelines[-3:]}
        for path in files:
            os.utime(path, times)
    tally.case("the disk: its clock jumps", tried=3)


def test_books_that_cannot_even_be_read_are_thrown_away(tally: Tally) -> None:
    store, target = PrefixStore(LARGE), ScriptedTarget()
    ask = asked(tuple(range(1, 60)) * 2)
    assert decode(Batch(target, None, prefix=store), ask) == plainly(ask)
    (edge, *_) = store.path(np.asarray(ask.prompt, np.int32))
    assert edge.parent is not None
    edge.parent.children[-1] = Node(np.zeros(0, np.int32), 0, {}, parent=edge.parent)
    store.tidy()
    assert (store.nbytes, store.marks) == (0, 0)
    assert decode(Batch(target, None, prefix=store), ask) == plainly(ask)
    store.check()
    tally.case("the store: its books are wrong")


def test_clocks_that_jump_change_no_text(tally: Tally) -> None:
    leaps = [0.0, 1e9, -1e9, 0.0, 0.0, 5e-324, -5.0]
    for offset in range(len(leaps)):
        reads = 0

        def clock(offset: int = offset) -> float:
            nonlocal reads
            reads += 1
            return reads * 0.01 + leaps[(reads + offset) % len(leaps)]

        target = ScriptedTarget()
        ask = asked(speculation="auto", prediction=(1, 2, 3))
        batch = Batch(target, ScriptedSpeculator(target, blurred), clock=clock)
        session = batch.add(ask)
        said = [token for _ in range(60) for update in batch.step() for token in update.ids]
        assert said == plainly(ask)
        assert session.finish == "length"
        assert abs(session.stats.decode_seconds) < 1e10
    tally.case("a clock that jumps", tried=len(leaps))
