"""Timelines without any rows, for a disk to keep."""

from collections.abc import Sequence

import numpy as np

from models.decode.archive import Label, Stretch, names
from models.decode.disk import Disk

LARGE = 1 << 30


def stretch(tokens: Sequence[int]) -> Stretch:
    """A whole timeline without any rows."""
    ids = np.asarray(tokens, np.int32).tobytes()
    return Stretch(Label(names(ids, [len(tokens)])[len(tokens)], "", 0, len(tokens), True, True), ids, ())


def found(disk: Disk, tokens: Sequence[int]) -> list[Stretch]:
    """What is read of a timeline, which must end in time."""
    ids = np.asarray((*tokens, 1), np.int32).tobytes()
    return disk.get(disk.chain(ids, beyond=0, drafting=False)).result(10)


TIMELINE = stretch(range(50))
