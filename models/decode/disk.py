"""Kept stretches on disk: written and read by a thread of their own, which sees bytes alone."""

import fcntl
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

from models.decode.archive import ROOT, ArchiveError, Label, Stretch, names, read, read_label, written

logger = logging.getLogger(__name__)

SUFFIX, UNFINISHED = ".kv", ".part"

MOST_WAITING = 1 << 30
"""Bytes that may wait to be written; beyond them nothing more is taken, since the disk is slower than the answers."""


class Disk:
    """Files in one folder, within a budget of bytes; those used longest ago go first. Methods are safe from any thread.

    A file is complete from the moment it has its name, so that being killed at any point leaves nothing half written
    to be found, and several processes may share a folder. What goes wrong is logged and costs speed alone.
    """

    def __init__(self, folder: Path, key: str, budget: int) -> None:
        """Use `folder`, made if absent, for the files of the model that `key` names; they share `budget` with others'.

        Raises:
            OSError: the folder cannot be made or read.
        """
        self._folder, self._key, self._budget = folder, key, budget
        self._labels: dict[str, Label] = {}
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in filter(_abandoned, folder.glob(f"*{UNFINISHED}")):
            left.unlink(missing_ok=True)
        for path in folder.glob(f"*{SUFFIX}"):
            self._index(path)
        self._thread = threading.Thread(target=self._work, name="prefix-disk", daemon=True)
        self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Write what waits, then end the thread; what takes longer than so many seconds is left unwritten."""
        self._jobs.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning("the prefix cache in %s is behind: %d bytes are not written", self._folder, self._waiting)

    def knows(self, name: str, *, resumes: bool, drafts: bool) -> bool:
        """Whether a stretch of this name is there, or on its way, and serves so much."""
        with self._lock:
            label = self._labels.get(name)
        return label is not None and label.resumes >= resumes and label.drafts >= drafts

    def chain(self, tokens: bytes, *, beyond: int, drafting: bool) -> list[Label]:
        """The stretches that lead to the last place, beyond so many tokens, where a session can go on; none if none."""
        with self._lock:
            labels = dict(self._labels)
        length = len(tokens) // 4
        ends = {label.stop for label in labels.values() if beyond < label.stop < length}
        for _, name in sorted(names(tokens, ends).items(), reverse=True):
            label = labels.get(name)
            if label is None or not (label.drafts if drafting else label.resumes):
                continue
            path = [label]
            while path[-1].parent != ROOT and path[-1].parent in labels:
                path.append(labels[path[-1].parent])
            if path[-1].parent == ROOT:
                return path[::-1]
        return []

    def put(self, stretch: Stretch) -> None:
        """Have a stretch written, unless too much waits already."""
        with self._lock:
            if self._waiting + stretch.nbytes > MOST_WAITING:
                logger.info("a stretch of %d bytes is not written: the disk is behind", stretch.nbytes)
                return
            self._waiting += stretch.nbytes
            self._labels[stretch.label.name] = stretch.label
        self._jobs.put(partial(self._write, stretch))

    def get(self, labels: Sequence[Label]) -> "Future[list[Stretch]]":
        """The stretches, once they are read; none where one of them is damaged or gone."""
        future: Future[list[Stretch]] = Future()
        self._jobs.put(partial(self._answer, labels, future))
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                # The next job may do; without this thread everybody who reads would wait for ever.
                logger.exception("the prefix cache in %s", self._folder)

    def _answer(self, labels: Sequence[Label], future: "Future[list[Stretch]]") -> None:
        stretches: list[Stretch] = []
        try:
            stretches = self._read(labels)
        finally:
            future.set_result(stretches)

    def _index(self, path: Path) -> None:
        try:
            label = read_label(path, self._key)
        except (ArchiveError, OSError) as error:
            logger.info("a file of the prefix cache is not used: %s", error)
            return
        if path.name == f"{label.name}{SUFFIX}":
            with self._lock:
                self._labels[label.name] = label

    def _write(self, stretch: Stretch) -> None:
        name, unfinished = stretch.label.name, None
        try:
            with NamedTemporaryFile(dir=self._folder, prefix=f"{name}.", suffix=UNFINISHED, delete=False) as file:
                unfinished = Path(file.name)
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
                file.writelines(written(stretch, self._key))
                file.flush()
                unfinished.replace(self._folder / f"{name}{SUFFIX}")
            self._shrink()
        except OSError as error:
            logger.warning("the prefix cache cannot be written to %s: %s", self._folder, error)
            self._forget(name)
        finally:
            if unfinished is not None:
                unfinished.unlink(missing_ok=True)
            with self._lock:
                self._waiting -= stretch.nbytes

    def _read(self, labels: Sequence[Label]) -> list[Stretch]:
        stretches = []
        for label in labels:
            path = self._folder / f"{label.name}{SUFFIX}"
            try:
                stretches.append(read(path, self._key))
            except (ArchiveError, OSError) as error:
                logger.warning("a file of the prefix cache is dropped: %s", error)
                self._forget(label.name)
                path.unlink(missing_ok=True)
                return []
            self._recut(label, stretches[-1].label)
        # Beginnings are younger than what goes on from them, so that those go first. A folder that cannot be written
        # to can still be read.
        with suppress(OSError):
            for label in reversed(labels):
                os.utime(self._folder / f"{label.name}{SUFFIX}")
        return stretches

    def _recut(self, believed: Label, found: Label) -> None:
        """Another process may have cut a timeline elsewhere: the next request goes by what was found."""
        if found != believed:
            with self._lock:
                self._labels[found.name] = found
            if found.parent != ROOT:
                self._index(self._folder / f"{found.parent}{SUFFIX}")

    def _forget(self, name: str) -> None:
        with self._lock:
            self._labels.pop(name, None)

    def _shrink(self) -> None:
        """Remove the files used longest ago, any model's, until the budget holds."""
        files = list(_sized(self._folder.parent.glob(f"*/*{SUFFIX}")))
        held = sum(stat.st_size for _, stat in files)
        for path, stat in sorted(files, key=lambda file: file[1].st_mtime_ns):
            if held <= self._budget:
                return
            path.unlink(missing_ok=True)
            held -= stat.st_size
            if path.parent == self._folder:
                self._forget(path.stem)


def _abandoned(path: Path) -> bool:
    """Whether nobody writes a file any more: its writer holds a lock, and loses it where it dies."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Locks are not to be had in every file system.
        return True
    return True


def _sized(paths: Iterator[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Those that are still there: another process may remove them."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path, path.stat()
