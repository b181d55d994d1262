"""`laguna bench` from settings to exit status."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from server.bench.measure import Watch, measure
from server.bench.plots import PlotsUnavailable, draw, plotter
from server.bench.report import summary, text
from server.settings import Settings


def run(
    settings: Settings,
    *,
    tokens: int,
    contexts: Sequence[int],
    repeats: int,
    json_file: Path | None = None,
    plots: Path | None = None,
) -> int:
    """Measure what the settings would serve and print it.

    Args:
        settings: of the server.
        tokens: of each answer, at most.
        contexts: where rounds are timed.
        repeats: rounds of each kind that are timed.
        json_file: where all figures go, if anywhere.
        plots: the folder for plots, if they are wanted.

    Returns:
        1 where the pair cannot be loaded or plots cannot be drawn, else 0.
    """
    console = Console(stderr=True)
    try:
        if plots is not None:
            plotter()
        with _progress(console) as watch:
            found = measure(settings, tokens, contexts, repeats, watch)
    except (PlotsUnavailable, ValueError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    print(text(found))
    facts = summary(found)
    if json_file is not None:
        json_file.write_text(json.dumps(facts, indent=2) + "\n")
    if plots is not None:
        for path in draw(facts, plots):
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
