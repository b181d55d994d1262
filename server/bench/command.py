"""`laguna bench` from settings to exit status."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from models.calibration import Measured as Pair
from models.calibration import write_calibration
from server.bench.measure import Measurement, Watch, measure
from server.bench.plots import PlotsUnavailable, draw, plotter
from server.bench.report import summary, text
from server.loading import loading
from server.settings import Settings


@dataclass(frozen=True)
class Wanted:
    """What is written besides the tables."""

    calibration: Path | None = None
    """A file of what a server can start from."""
    json: Path | None = None
    """A file of all figures."""
    plots: Path | None = None
    """A folder."""


def run(settings: Settings, measurement: Measurement, wanted: Wanted) -> int:
    """Measure what the settings would serve, print it and write what is wanted.

    Returns:
        1 where the pair cannot be loaded or plots cannot be drawn, else 0.
    """
    console = Console(stderr=True)
    try:
        if wanted.plots is not None:
            plotter()
        with _progress(console) as watch:
            found = measure(settings, measurement, watch)
    except (PlotsUnavailable, ValueError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    print(text(found))
    facts = summary(found)
    if wanted.calibration is not None:
        write_calibration(
            wanted.calibration, Pair.here(found.model, found.speculator, loading(settings)), found.learned
        )
        print(f"wrote {wanted.calibration}: laguna serve --calibration FILE starts from it", file=sys.stderr)
    if wanted.json is not None:
        wanted.json.write_text(json.dumps(facts, indent=2) + "\n")
    if wanted.plots is not None:
        for path in draw(facts, wanted.plots):
            print(f"wrote {path}", file=sys.stderr)
    return 0


@contextmanager
def _progress(console: Console) -> Generator[Watch]:
    """A line on the terminal that says what is under way; nothing elsewhere."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("starting") as status:
        yield status.update
