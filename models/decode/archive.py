"""The form of what is kept on disk: a file whose header says whose it is and proves that it is whole.

Magic, length of the header, header (JSON), then the contents: of a stretch of a timeline, the bytes of its tokens and
of all arrays.
"""

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MAGIC = b"LGNAKV01"
MOST_HEADER = 1 << 24

ROOT = ""
"""The name of where every timeline begins."""


class ArchiveError(ValueError):
    """A file that is not what it should be: cut short, changed, or of another model."""


@dataclass(frozen=True)
class Packed:
    """One array as bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Part:
    """What one layer remembers: the rows of the stretch, or what resumes it at the stretch's end."""

    kind: str
    """"whole", "layer" or "context"."""
    layer: int
    start: int
    stop: int
    arrays: tuple[Packed, ...]


@dataclass(frozen=True)
class Label:
    """What is known of a file without its contents."""

    name: str
    """Of all tokens up to `stop` (`names`)."""
    parent: str
    """The name of the stretch that this one goes on from."""
    start: int
    stop: int
    resumes: bool
    """A session can go on from its end."""
    drafts: bool
    """So can one that drafts."""


@dataclass(frozen=True)
class Stretch:
    """The tokens `start..stop` of a timeline, int32 as bytes, and what was kept of them."""

    label: Label
    tokens: bytes
    parts: tuple[Part, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all contents."""
        return len(self.tokens) + sum(len(array.data) for part in self.parts for array in part.arrays)


def names(tokens: bytes, stops: Iterable[int]) -> dict[int, str]:
    """The name of the timeline (int32 tokens as bytes) up to each of `stops`."""
    digest, reached, found = hashlib.blake2b(digest_size=20), 0, dict[int, str]()
    for stop in sorted(stops):
        digest.update(tokens[4 * reached : 4 * stop])
        found[stop], reached = digest.hexdigest() if stop else ROOT, stop
    return found


def written(stretch: Stretch, key: str) -> list[bytes]:
    """The file, in pieces; `key` names the model it belongs to."""
    contents = [stretch.tokens, *(array.data for part in stretch.parts for array in part.arrays)]
    parts = [
        {"kind": part.kind, "layer": part.layer, "start": part.start, "stop": part.stop}
        | {"arrays": [[array.dtype, array.shape, len(array.data)] for array in part.arrays]}
        for part in stretch.parts
    ]
    return sealed(asdict(stretch.label) | {"parts": parts}, contents, key)


def sealed(facts: Mapping[str, Any], contents: Sequence[bytes], key: str) -> list[bytes]:
    """A file of some contents, in pieces, with what is to be known of them."""
    check = 0
    for piece in contents:
        check = zlib.crc32(piece, check)
    header = json.dumps({**facts, "key": key, "crc": check, "bytes": sum(map(len, contents))}).encode()
    return [MAGIC, struct.pack("<II", len(header), zlib.crc32(header)), header, *contents]


def read_label(path: Path, key: str) -> Label:
    """The label alone, quickly.

    Raises:
        ArchiveError: it is another model's file, or none of ours.
        OSError: it cannot be read.
    """
    with path.open("rb") as file, _formed(path):
        header = _header(path, file.read(16), file.read)
        size = os.fstat(file.fileno()).st_size
        _is(header["key"] == key, path, "it belongs to another model")
        _is(size == header["length"] + header["bytes"], path, "it is cut short")
        return _label(header)


def read(path: Path, key: str) -> Stretch:
    """The whole file.

    Raises:
        ArchiveError: it is another model's file, or none of ours, or it was changed.
        OSError: it cannot be read.
    """
    header, contents = unsealed(path, key)
    with _formed(path):
        label = _label(header)
        reached = 4 * (label.stop - label.start)
        parts = []
        for part in header["parts"]:
            arrays = []
            for dtype, shape, size in part["arrays"]:
                arrays.append(Packed(dtype, tuple(shape), bytes(contents[reached : reached + size])))
                reached += size
            parts.append(Part(part["kind"], part["layer"], part["start"], part["stop"], tuple(arrays)))
        _is(reached == len(contents), path, "it holds something else than it says")
        return Stretch(label, bytes(contents[: 4 * (label.stop - label.start)]), tuple(parts))


def unsealed(path: Path, key: str) -> tuple[dict[str, Any], memoryview]:
    """What `sealed` was told, and the contents.

    Raises:
        ArchiveError: it is another model's file, or none of ours, or it was changed.
        OSError: it cannot be read.
    """
    data = memoryview(path.read_bytes())
    with _formed(path):
        header = _header(path, bytes(data[:16]), lambda size: bytes(data[16 : 16 + size]))
        contents = data[header["length"] :]
        _is(header["key"] == key, path, "it belongs to another model")
        whole = len(contents) == header["bytes"] and zlib.crc32(contents) == header["crc"]
        _is(whole, path, "its contents were changed")
    return header, contents


def _header(path: Path, first: bytes, more: Callable[[int], bytes]) -> dict[str, Any]:
    _is(len(first) == 16 and first[:8] == MAGIC, path, "it is no file of the prefix cache")
    length, check = struct.unpack("<II", first[8:])
    said = more(length) if length <= MOST_HEADER else b""
    _is(len(said) == length and zlib.crc32(said) == check, path, "its header was changed or cut short")
    return json.loads(said) | {"length": 16 + length}


def _label(header: dict[str, Any]) -> Label:
    label = Label(**{name: header[name] for name in ("name", "parent", "start", "stop", "resumes", "drafts")})
    if not 0 <= label.start < label.stop:
        raise ValueError(f"it holds the tokens {label.start}..{label.stop}")
    return label


@contextmanager
def _formed(path: Path) -> Generator[None]:
    """A header may be whole and yet say nothing that is known here, as one of another version would."""
    try:
        yield
    except ArchiveError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(f"{path.name}: its header cannot be understood ({error})") from error


def _is(holds: bool, path: Path, otherwise: str) -> None:
    if not holds:
        raise ArchiveError(f"{path.name}: {otherwise}")
