"""Answers that outlive the process: each in a file beside the caches of the prompt that it was given to."""

import hashlib
import logging
import threading
from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from models.decode.archive import ArchiveError, sealed, unsealed
from models.decode.folder import ANSWER, Folder
from server.replay import MOST_IDS, Replay, Said, bytes_of

log = logging.getLogger(__name__)


class ShelvedReplay(Replay):
    """Answers in memory over those in a folder. What goes wrong with one is logged, and it is not replayed."""

    def __init__(self, folder: Folder, key: str, most_ids: int = MOST_IDS) -> None:
        """Use the files in `folder` that are of the model that `key` names.

        Raises:
            OSError: the folder cannot be read.
        """
        super().__init__(most_ids)
        self._folder, self._key = folder, key
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._naming = threading.Lock()
        for path in folder.files(ANSWER):
            self._names[_before(path.name)].add(path.name)
        folder.told(self._forget)

    def keep(self, before: bytes, said: Said) -> None:
        """Keep an answer to the prompt of this digest, in memory and on disk."""
        super().keep(before, said)
        name = _name(before, said)
        if not self._folder.has(name) and self._folder.put(name, 4 * said.size, partial(_written, said, self._key)):
            with self._naming:
                self._names[_before(name)].add(name)

    def _answers(self, before: bytes) -> Iterator[Said]:
        """Those in memory, then those that are only on disk."""
        held = list(super()._answers(before))
        yield from held
        with self._naming:
            names = self._names.get(before.hex(), set()) - {_name(before, said) for said in held}
        for name in sorted(names):
            said = self._read(name)
            if said is not None:
                super().keep(before, said)
                yield said

    def _read(self, name: str) -> Said | None:
        try:
            said = _said(self._folder.path / name, self._key)
        except ArchiveError as error:
            log.warning("a kept answer is dropped: %s", error)
            self._folder.remove(name)
            return None
        except OSError as error:
            log.warning("a kept answer cannot be read: %s", error)
            self._forget(name)
            return None
        self._folder.use([name])
        return said

    def _forget(self, name: str) -> None:
        with self._naming:
            names = self._names.get(_before(name), set())
            names.discard(name)
            if not names:
                self._names.pop(_before(name), None)


def _name(before: bytes, said: Said) -> str:
    """An answer is told from others to the same prompt by its ids, and by what was read in them."""
    own = hashlib.blake2b(bytes_of((*said.tail, *said.ids)) + said.meaning, digest_size=16)
    return f"{before.hex()}.{own.hexdigest()}{ANSWER}"


def _before(name: str) -> str:
    """The digest of the prompt, from a file's name."""
    return name.partition(".")[0]


def _written(said: Said, key: str) -> list[bytes]:
    facts = {"tail": len(said.tail), "opens": said.opens, "thinking": said.thinking, "meaning": said.meaning.hex()}
    return sealed(facts, [bytes_of(said.tail), bytes_of(said.ids)], key)


def _said(path: Path, key: str) -> Said:
    facts, contents = unsealed(path, key)
    ids = array("I")
    # Its header is whole, yet another version may have said other things there.
    try:
        ids.frombytes(contents)
        tail, opens, thinking, meaning = (facts[name] for name in ("tail", "opens", "thinking", "meaning"))
        return Said(tuple(ids[:tail]), tuple(ids[tail:]), opens, thinking, bytes.fromhex(meaning))
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{path.name}: it holds no answer ({error})") from error
