"""A calibration on disk: one file for one machine and one pair, refused for any other."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from models.decode.calibration import InvalidCalibration, restored, saved
from models.decode.width import Table
from models.device import default_device
from models.loading import DEFAULTS, Loading

FORMAT = 2
UNPACED = 1
"""A format that says nothing of prompts read beside others: read as if that were not known."""


class CalibrationError(ValueError):
    """A calibration file that cannot be used: the message names the file, why, and what to do."""


@dataclass(frozen=True)
class Measured:
    """What was measured."""

    device: str
    """As MLX calls it, such as "Apple M4 Max"."""
    dtype: str
    target: str
    speculator: str | None
    packed: Mapping[str, int] = field(default_factory=dict)
    """As `Loading.packed` has it."""

    @classmethod
    def here(cls, target: str, speculator: str | None, loading: Loading = DEFAULTS) -> Self:
        """This pair, loaded so, on the default device."""
        device = default_device()
        return cls(device.name, device.dtype, target, speculator, loading.packed)


def write_calibration(path: Path, measured: Measured, table: Table) -> None:
    """Write the file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    value = {"format": FORMAT, "measured": asdict(measured)} | saved(table)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    beside.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    beside.replace(path)


def read_calibration(path: Path, measured: Measured) -> Table:
    """The table in a file that was written for this very machine and pair.

    Raises:
        CalibrationError: it cannot be read, is damaged, or was measured on something else.
    """
    remedy = "leave it out, or measure again"
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"the calibration {path} cannot be read ({error}): {remedy}") from error
    if isinstance(value, dict) and value.get("format") == UNPACED:
        value |= {"format": FORMAT, "usual": [], "extra": []}
    if isinstance(value, dict) and isinstance(measured_on := value.get("measured"), dict):
        # Files from before packing was told are of pairs as they were published.
        value["measured"] = {"packed": {}} | measured_on
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise CalibrationError(f"{path} is no calibration of format {FORMAT}: {remedy}")
    wanted, found = asdict(measured), value.get("measured")
    if found != wanted:
        raise CalibrationError(f"the calibration {path} was measured on {found}, and this is {wanted}: {remedy}")
    try:
        return restored(value, widths=(1,))
    except InvalidCalibration as error:
        raise CalibrationError(f"the calibration {path} is damaged ({error}): {remedy}") from error
