"""Files under the prefix store that are not what they should be, or cannot be had now, cost time and no answer."""

import errno
import json
import logging
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.decode import disk as disk_module
from models.decode.archive import Label, Stretch, names, written
from models.decode.disk import Disk
from models.decode.folder import Folder
from tests.faults.tally import Tally
from tests.faults.timelines import LARGE, TIMELINE, found, stretch


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_now_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, tally: Tally
) -> None:
    def fails(*_: object) -> Stretch:
        raise OSError(code, os.strerror(code))

    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    disk.put(TIMELINE)
    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "read", fails)
        assert found(disk, range(50)) == []
    disk.close()
    again = Disk(Folder(tmp_path / "m", LARGE), "m")
    assert found(again, range(50)) == [TIMELINE]
    again.close()
    tally.case("the disk: a file cannot be read for a while")


def test_a_damaged_file_that_may_not_be_removed_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    disk.put(TIMELINE)
    assert found(disk, range(50)) == [TIMELINE]
    (path,) = (tmp_path / "m").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(Path, "unlink", refused)
        assert found(disk, range(50)) == []
        assert found(disk, range(50)) == []
    assert caplog.text.count("its contents were changed") == 1
    assert "cannot be removed" in caplog.text
    disk.put(TIMELINE)
    assert found(disk, range(50)) == [TIMELINE]
    disk.close()
    tally.case("the disk: permission is lost")


def test_a_file_under_the_name_of_another_is_not_resumed_from(tmp_path: Path, tally: Tally) -> None:
    """Their last stretches have the same tokens, but not what came before them."""
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    beginnings = [stretch(range(start, start + 20)) for start in (0, 100)]
    tail = np.arange(7, dtype=np.int32).tobytes()
    ends = []
    for beginning in beginnings:
        name = names(beginning.tokens + tail, [27])[27]
        ends.append(Stretch(Label(name, beginning.label.name, 20, 27, True, True), tail, ()))
    for part in (*beginnings, *ends):
        disk.put(part)
    assert found(disk, (*range(20), *range(7))) == [beginnings[0], ends[0]]
    mine, other = (tmp_path / "m" / f"{end.label.name}.kv" for end in ends)
    mine.write_bytes(other.read_bytes())
    assert found(disk, (*range(20), *range(7))) == []
    assert not mine.exists()
    disk.close()
    tally.case("the disk: a file has another's contents")


@pytest.mark.parametrize("lost", ["key", "bytes", "name", "stop", "parts"])
def test_a_whole_file_of_another_form_is_not_used(tmp_path: Path, lost: str, tally: Tally) -> None:
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    disk.put(TIMELINE)
    assert found(disk, range(50)) == [TIMELINE]
    (path,) = (tmp_path / "m").iterdir()
    magic, _, header, *contents = written(TIMELINE, "m")
    facts = json.loads(header)
    del facts[lost]
    header = json.dumps(facts).encode()
    path.write_bytes(b"".join([magic, struct.pack("<II", len(header), zlib.crc32(header)), header, *contents]))
    again = Disk(Folder(tmp_path / "m", LARGE), "m")
    assert found(again, range(50)) == found(disk, range(50)) == []
    for each in (disk, again):
        each.close()
    tally.case("the disk: a file of another form")


@pytest.mark.parametrize(("start", "parent"), [(0, TIMELINE.label.name), (7, TIMELINE.label.name), (50, "")])
def test_a_timeline_that_goes_on_from_itself_ends_all_the_same(
    tmp_path: Path, start: int, parent: str, tally: Tally
) -> None:
    (tmp_path / "m").mkdir()
    label = replace(TIMELINE.label, parent=parent, start=start)
    (tmp_path / "m" / f"{label.name}.kv").write_bytes(b"".join(written(replace(TIMELINE, label=label), "m")))
    disk = Disk(Folder(tmp_path / "m", LARGE), "m")
    assert found(disk, range(50)) == []
    disk.close()
    tally.case("the disk: a timeline without a beginning")


def test_one_that_is_larger_than_all_may_be_removes_nothing(tmp_path: Path, tally: Tally) -> None:
    disk = Disk(Folder(tmp_path / "m", 2000), "m")
    disk.put(TIMELINE)
    disk.put(stretch(range(1000)))
    assert found(disk, range(1000)) == [TIMELINE]
    assert not disk.knows(stretch(range(1000)).label.name, resumes=True, drafts=True)
    disk.close()
    tally.case("the disk: one file is larger than the budget")


def test_what_dead_processes_of_other_models_left_unfinished_is_removed(tmp_path: Path, tally: Tally) -> None:
    Folder(tmp_path / "other", LARGE).close()
    (tmp_path / "other" / "left.part").write_bytes(b"of a process that died")
    Folder(tmp_path / "m", LARGE).close()
    assert list(tmp_path.glob("*/*")) == []
    tally.case("the disk: another model's unfinished file")
