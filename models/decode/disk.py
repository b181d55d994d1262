"""Kept stretches on disk, by the names of the timelines that they end."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from models.decode.archive import ROOT, ArchiveError, Label, Stretch, names, read, read_label, written
from models.decode.folder import STRETCH, Folder

logger = logging.getLogger(__name__)


class Disk:
    """The stretches in one folder. Safe from any thread; what goes wrong is logged and costs speed alone."""

    def __init__(self, folder: Folder, key: str) -> None:
        """Use the files in `folder` that are of the model that `key` names.

        Raises:
            OSError: the folder cannot be read.
        """
        self._folder, self._key = folder, key
        self._labels: dict[str, Label] = {}
        self._lock = threading.Lock()
        for path in folder.files(STRETCH):
            self._index(path)
        folder.told(lambda name: self._forget(name.removesuffix(STRETCH)))

    def close(self, seconds: float | None = None) -> None:
        """Let the folder write what waits, for so many seconds at most."""
        self._folder.close(seconds)

    def knows(self, name: str, *, resumes: bool, drafts: bool) -> bool:
        """Whether a stretch of this name is there, or on its way, and serves so much."""
        with self._lock:
            label = self._labels.get(name)
        serves = label is not None and label.resumes >= resumes and label.drafts >= drafts
        return serves and self._folder.has(f"{name}{STRETCH}")

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
            while path[-1].parent != ROOT and _leads(labels.get(path[-1].parent), path[-1]):
                path.append(labels[path[-1].parent])
            if path[-1].parent == ROOT:
                return path[::-1]
        return []

    def put(self, stretch: Stretch) -> None:
        """Have a stretch written, unless too much waits already."""
        name = stretch.label.name
        with self._lock:
            before, self._labels[name] = self._labels.get(name), stretch.label
        if not self._folder.put(f"{name}{STRETCH}", stretch.nbytes, lambda: written(stretch, self._key)):
            with self._lock:
                self._labels.pop(name, None)
                self._labels |= {} if before is None else {name: before}

    def use(self, stretches: Sequence[str]) -> None:
        """Let a timeline's stretches, named from its beginning on, go after all that were not used since."""
        self._folder.do(partial(self._used, stretches))

    def get(self, labels: Sequence[Label]) -> "Future[list[Stretch]]":
        """The stretches, once they are read; none where one of them is damaged or gone."""
        future: Future[list[Stretch]] = Future()
        self._folder.do(partial(self._answer, labels, future))
        return future

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
        if path.name == f"{label.name}{STRETCH}":
            with self._lock:
                self._labels[label.name] = label

    def _read(self, labels: Sequence[Label]) -> list[Stretch]:
        stretches = []
        for label in labels:
            try:
                stretches.append(_named(label.name, read(self._path(label.name), self._key)))
            except ArchiveError as error:
                logger.warning("a file of the prefix cache is dropped: %s", error)
                self._folder.remove(f"{label.name}{STRETCH}")
                return []
            except OSError as error:
                # It may be whole all the same, and read by a later process.
                logger.warning("a file of the prefix cache cannot be read: %s", error)
                self._forget(label.name)
                return []
            self._recut(label, stretches[-1].label)
        self._used([label.name for label in labels])
        return stretches

    def _used(self, stretches: Sequence[str]) -> None:
        """Beginnings are younger than what goes on from them, so that those go first."""
        self._folder.use(f"{name}{STRETCH}" for name in reversed(stretches))

    def _recut(self, believed: Label, found: Label) -> None:
        """Another process may have cut a timeline elsewhere: the next request goes by what was found."""
        if found != believed:
            with self._lock:
                self._labels[found.name] = found
            if found.parent != ROOT:
                self._index(self._path(found.parent))

    def _path(self, name: str) -> Path:
        return self._folder.path / f"{name}{STRETCH}"

    def _forget(self, name: str) -> None:
        with self._lock:
            self._labels.pop(name, None)


def _leads(parent: Label | None, label: Label) -> bool:
    """Whether one stretch goes on from another."""
    return parent is not None and parent.stop == label.start


def _named(name: str, stretch: Stretch) -> Stretch:
    """Raises `ArchiveError` where it ends another timeline than the one that its file is named after."""
    if stretch.label.name != name:
        raise ArchiveError(f"{name}: it holds another timeline")
    return stretch
