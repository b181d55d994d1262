"""`laguna doctor` from settings to exit status."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from math import isnan
from typing import Any

from rich.console import Console

from models.exactness import Difference
from server.doctor.exactness import Probe, exactness_findings, probe
from server.doctor.examine import examine
from server.doctor.finding import Finding, known, worst
from server.doctor.report import as_json, coloured, plain
from server.settings import Settings


def run(settings: Settings, *, tokens: int | None, json: bool) -> int:
    """Examine what the settings would serve and print what was found.

    Args:
        settings: of the server.
        tokens: positions of the exactness measurement for each prompt and width; None: not measured.
        json: print one JSON object instead of lines.

    Returns:
        1 where something fails, else 0, also with warnings.
    """
    findings = examine(settings)
    more: dict[str, Any] = {}
    if tokens is not None:
        measured, added = _exactness(settings, tokens)
        findings += added
        more = {"exactness": measured}
    console = Console()
    if json:
        print(as_json(findings, more))
    elif console.is_terminal:
        coloured(findings, console)
    else:
        print(plain(findings))
    return 1 if worst(findings) == "fail" else 0


def _exactness(settings: Settings, tokens: int) -> tuple[dict[str, Any] | None, list[Finding]]:
    with _progress() as watch:
        measured = known(partial(probe, settings, tokens, watch))
    if not isinstance(measured, Probe):
        return None, exactness_findings(measured)
    rows = [_row(difference) for difference in measured.differences]
    return {"dtype": measured.dtype, "prompts": measured.prompts, "widths": rows}, exactness_findings(measured)


def _row(difference: Difference) -> dict[str, Any]:
    """JSON has no NaN."""
    return asdict(difference) | {"largest": None if isnan(difference.largest) else difference.largest}


@contextmanager
def _progress() -> Generator[Callable[[int, int], None]]:
    """A line on the terminal that says how far it is; nothing elsewhere."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with console.status("loading the pair") as status:
        yield lambda done, total: status.update(f"comparing blocks with single steps: {done} of {total}")
