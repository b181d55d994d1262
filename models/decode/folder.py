"""Whole files in one folder, within a budget of bytes: written by a thread of its own, which sees bytes alone."""

import fcntl
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

logger = logging.getLogger(__name__)

STRETCH, ANSWER = ".kv", ".said"
"""How the files of kept stretches, and of answers, end: they share the budget."""
UNFINISHED = ".part"

MOST_WAITING = 1 << 30
"""Bytes that may wait to be written; beyond them nothing more is taken, since the disk is slower than the answers."""

SKEW = 60.0
"""Seconds by which the clocks of those who share a folder may differ."""

Forget = Callable[[str], None]


class Folder:
    """Files of one model; those used longest ago go first, any model's. Methods are safe from any thread.

    A file is complete from the moment it has its name, so that being killed at any point leaves nothing half written
    to be found, and several processes may share a folder. What goes wrong is logged and costs speed alone.
    """

    def __init__(self, path: Path, budget: int) -> None:
        """Use `path`, made if absent, whose files share `budget` with those in the folders beside it.

        Raises:
            OSError: the folder cannot be made or read.
        """
        self.path, self._budget = path, budget
        self._forget: list[Forget] = []
        self._waiting: dict[str, int] = {}
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path)
        for left in filter(_abandoned, path.parent.glob(f"*/*{UNFINISHED}")):
            _removed(left)
        self._thread = threading.Thread(target=self._work, name="prefix-disk", daemon=True)
        self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Write what waits, then end the thread; what takes longer than so many seconds is left unwritten."""
        self._jobs.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            left = sum(self._waiting.values())
            logger.warning("the prefix cache in %s is behind: %d bytes are not written", self.path, left)

    def told(self, forget: Forget) -> None:
        """Have `forget` called, on the folder's thread, with the name of each file that is removed or not written."""
        self._forget.append(forget)

    def files(self, suffix: str) -> Iterator[Path]:
        """Those that are there now."""
        return self.path.glob(f"*{suffix}")

    def has(self, name: str) -> bool:
        """Whether a file is there, or on its way: other processes may remove some, and somebody the whole folder."""
        return name in self._waiting or (self.path / name).exists()

    def do(self, job: Callable[[], None]) -> None:
        """Have a job done by the folder's thread, in its turn."""
        self._jobs.put(job)

    def put(self, name: str, nbytes: int, pieces: Callable[[], Iterable[bytes]]) -> bool:
        """Have a file of about so many bytes written, unless too much waits already; whether it will be tried."""
        with self._lock:
            if nbytes > self._budget or sum(self._waiting.values()) + nbytes > MOST_WAITING:
                why = "it is larger than all files may be" if nbytes > self._budget else "the disk is behind"
                logger.info("a file of %d bytes is not written: %s", nbytes, why)
                return False
            self._waiting[name] = nbytes
        self._jobs.put(partial(self._write, name, nbytes, pieces))
        return True

    def use(self, names: Iterable[str]) -> None:
        """Make files the youngest, the last of them above all."""
        # A folder that cannot be written to can still be read.
        for name in names:
            with suppress(OSError):
                os.utime(self.path / name)

    def remove(self, name: str) -> None:
        """Remove a file, as far as that can be done, and have it forgotten."""
        _removed(self.path / name)
        self._lost(name)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                # The next job may do; without this thread everybody who reads would wait for ever.
                logger.exception("the prefix cache in %s", self.path)

    def _write(self, name: str, nbytes: int, pieces: Callable[[], Iterable[bytes]]) -> None:
        unfinished, whole = None, False
        try:
            _make(self.path)
            with NamedTemporaryFile(dir=self.path, prefix=f"{name}.", suffix=UNFINISHED, delete=False) as file:
                unfinished = Path(file.name)
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
                file.writelines(pieces())
                file.flush()
                unfinished.replace(self.path / name)
            whole = True
        except OSError as error:
            logger.warning("the prefix cache cannot be written to %s: %s", self.path, error)
        finally:
            with self._lock:
                self._waiting.pop(name, None)
            if not whole:
                self._lost(name)
                if unfinished is not None:
                    _removed(unfinished)
        self._shrink()

    def _shrink(self) -> None:
        """Remove the files used longest ago, any model's, until the budget holds."""
        found = (path for suffix in (STRETCH, ANSWER) for path in self.path.parent.glob(f"*/*{suffix}"))
        files, latest = list(_sized(found)), time.time() + SKEW
        held = sum(stat.st_size for _, stat in files)
        # A clock that was set back leaves files from the future: they would outlive all that is written from now on.
        for path, stat in sorted(files, key=lambda file: (file[1].st_mtime <= latest, file[1].st_mtime_ns)):
            if held <= self._budget:
                return
            if _removed(path):
                held -= stat.st_size
                if path.parent == self.path:
                    self._lost(path.name)

    def _lost(self, name: str) -> None:
        for forget in self._forget:
            forget(name)


def _make(path: Path) -> None:
    """Make a folder for its owner alone. Where that above it is gone, so may be the disk, and nothing is made."""
    path.mkdir(mode=0o700, exist_ok=True)


def _removed(path: Path) -> bool:
    """Remove a file; whether it is gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("a file of the prefix cache cannot be removed: %s", error)
        return False
    return True


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
        with suppress(OSError):
            yield path, path.stat()
