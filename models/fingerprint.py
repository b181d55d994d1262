"""One short name for everything that what a pair computes depends on, from its files and how they are loaded."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

FORM = 1
"""Of caches and snapshots: another one makes all that was kept before worthless."""

_SAMPLE = 1 << 20
"""Bytes that are read at a time; of a larger file its two ends and its middle count, and its size."""

_KINDS = (".json", ".jinja", ".safetensors")
_TEMPLATES = "additional_chat_templates/*.jinja"


def fingerprint(folders: Iterable[Path], facts: Iterable[object]) -> str:
    """A name for the checkpoint files in `folders` together with `facts`, the same wherever the files lie.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=12)
    digest.update(repr([FORM, *map(str, facts)]).encode())
    for folder in folders:
        for path in _files(folder):
            size = path.stat().st_size
            digest.update(repr([path.relative_to(folder).as_posix(), size]).encode())
            with path.open("rb") as file:
                for place in (0,) if size <= 3 * _SAMPLE else (0, size // 2, size - _SAMPLE):
                    file.seek(place)
                    digest.update(file.read(3 * _SAMPLE if size <= 3 * _SAMPLE else _SAMPLE))
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    """Those that a pair may depend on, in an order of their own."""
    found = [path for path in folder.iterdir() if path.suffix in _KINDS]
    return sorted(path for path in (*found, *folder.glob(_TEMPLATES)) if path.is_file())
