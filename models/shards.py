"""Whether the files of a checkpoint are whole: JSON that parses, every shard there, no safetensors file cut short.

Read from names, lengths and headers, so a checkpoint of any size is judged in milliseconds; the tensors' bytes are not.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from models.config import read_json
from models.config_fields import ConfigError
from models.errors import CheckpointError

WEIGHTS = "model*.safetensors"
"""The files that are loaded; what lies beside them under other names is not."""

READ = (
    "config.json",
    "generation_config.json",
    "hf_quant_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""Files that hold one JSON object each, where they are there; other JSON beside them is nobody's business here."""

_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(.*)-(\d+)-of-(\d+)\.safetensors")
_LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
}


_READABLE = frozenset(_BITS) - {"F64", "F8_E5M2"}
"""Dtypes that MLX reads; floats of 8 bits as bytes."""


class DamagedFile(CheckpointError):
    """A file that is cut short, missing, or holds something else than its name says.

    Attributes:
        file: which one.
        why: what is wrong with it.
    """

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file}: {why}; fetch or copy it again")
        self.file = file
        self.why = why


@dataclass(frozen=True)
class Tensor:
    """One entry of a header: the dtype's name in the format, the shape, and the bytes in the file."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of one safetensors file.

    Raises:
        DamagedFile: its header does not parse, or the file is shorter or longer than the header says.
    """
    try:
        length = path.stat().st_size
        with path.open("rb") as file:
            start = int.from_bytes(file.read(8), "little")
            if length < 8 or start > min(length - 8, _LARGEST_HEADER):
                raise DamagedFile(path, f"{length} bytes, which hold no safetensors header: it is cut short")
            raw = json.loads(file.read(start))
        tensors = {name: _tensor(entry) for name, entry in raw.items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for name, entry in raw.items() if name != "__metadata__"), default=0)
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror})") from error
    except DamagedFile:
        raise
    # json's own errors, and those of a header that is JSON of another form.
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedFile(path, f"its safetensors header does not parse ({error})") from error
    if length != 8 + start + end:
        raise DamagedFile(path, f"{length} bytes, where its header says {8 + start + end}")
    return tensors


def check_tensors(folder: Path) -> None:
    """Judge the names and dtypes of all tensors together.

    Raises:
        CheckpointError: one that two files hold, so that chance would choose, or one in a dtype that is not read.
        DamagedFile: the first file that is not whole.
    """
    places: dict[str, Path] = {}
    for path in sorted(folder.glob(WEIGHTS)):
        for name, tensor in read_header(path).items():
            if name in places:
                raise CheckpointError(
                    f"{places[name]} and {path.name} both hold {name}: remove the one that is not meant"
                )
            if tensor.dtype not in _READABLE:
                raise CheckpointError(f"{path}: {name} is {tensor.dtype}, which MLX does not read")
            places[name] = path
    if not places:
        raise CheckpointError(f"{folder} has no weights: no file {WEIGHTS} with a tensor in it")


def check_files(folder: Path) -> None:
    """Judge every file that loading a checkpoint would read.

    Raises:
        DamagedFile: the first file that is not whole, or is missing.
    """
    for damage in damaged(folder):
        raise damage


def damaged(folder: Path) -> Iterator[DamagedFile]:
    """What is wrong with a checkpoint's files, one after another; a missing file counts as damaged."""
    for path in (folder / name for name in READ if (folder / name).exists()):
        try:
            read_json(path)
        except ConfigError as error:
            yield DamagedFile(path, str(error.value))
    for path in missing(folder):
        yield DamagedFile(path, "it is missing, and other files of the checkpoint name it")
    for path in sorted(folder.glob(WEIGHTS)):
        try:
            read_header(path)
        except DamagedFile as error:
            yield error


def missing(folder: Path) -> list[Path]:
    """Shards that the index or the numbers in the other shards' names promise, and that are not there."""
    promised = _indexed(folder) | _counted(path.name for path in folder.glob(WEIGHTS))
    return [path for path in sorted(folder / name for name in promised) if not path.exists()]


def _indexed(folder: Path) -> set[str]:
    """What the index names; one that does not parse names nothing here."""
    try:
        index = read_json(folder / _INDEX).get("weight_map")
    except ConfigError:
        return set()
    return {str(name) for name in index.values()} if isinstance(index, dict) else set()


def _counted(names: Iterable[str]) -> set[str]:
    """All of 1..n, where one name says `-i-of-n`."""
    found = [match.groups() for match in map(_NUMBERED.fullmatch, names) if match]
    return {
        f"{stem}-{index:0{len(width)}}-of-{count}.safetensors"
        for stem, width, count in found
        for index in range(1, int(count) + 1)
    }


def _tensor(entry: dict[str, Any]) -> Tensor:
    first, last = entry["data_offsets"]
    tensor = Tensor(str(entry["dtype"]), tuple(int(n) for n in entry["shape"]), last - first)
    if (bits := _BITS.get(tensor.dtype)) is not None and tensor.nbytes * 8 != tensor.size * bits:
        raise ValueError(f"{tensor.nbytes} bytes are not {tensor.shape} of {tensor.dtype}")
    return tensor
