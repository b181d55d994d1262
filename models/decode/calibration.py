"""What the width has learned, as a plain JSON value and back: a bench writes it, a server starts from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from models.decode.acceptance import DEEPEST, Acceptance, Phase, Record, Source, Subject
from models.decode.costs import KINDS, NARROW, Costs, bucket
from models.decode.reading import FEWEST, Others, Reading
from models.decode.width import Table

SOURCES: Mapping[str, Source] = {source: source for source in get_args(Source)}
PHASES: Mapping[str, Phase] = {phase: phase for phase in get_args(Phase)}
MOST = 1e9
"""No number of a calibration is larger; integers of JSON may be too large for a float."""
WORTH = 4.0
"""Blocks that a saved acceptance counts for: a start, quick to change."""


class InvalidCalibration(ValueError):
    """A value that is no calibration: the message names the place and what would do."""

    def __init__(self, place: str, value: object, wanted: str) -> None:
        super().__init__(f"{place} is {value!r}, but it must be {wanted}")


def saved(table: Table) -> dict[str, Any]:
    """The costs by kind, context (the tokens at which its bucket begins) and rows; acceptance by source and phase.

    And what rounds take without prompts, by how many sessions decode (from a power of two on), and beyond that with so
    many rows of one.
    """
    costs = [
        {"kind": kind, "context": 0 if place == 0 else NARROW << (place - 1), "rows": rows, "seconds": seconds}
        for (kind, place), points in sorted(table.costs.usual.items())
        for rows, seconds in sorted(points.items())
    ]
    acceptance = [
        {**subject._asdict(), "rates": [round(rate, 4) for rate in found.usual]}
        for subject, found in sorted(table.record.known.items())
    ]
    usual = [
        {"sessions": 1 << others.order >> 1, "drafting": others.drafting, "seconds": seconds}
        for others, seconds in table.reading.usually().items()
    ]
    extra = [{"rows": rows, "seconds": seconds} for rows, seconds in table.reading.beyond().items()]
    return {"costs": costs, "acceptance": acceptance, "usual": usual, "extra": extra}


def restored(value: Mapping[str, Any], widths: Sequence[int]) -> Table:
    """A table that starts from what `saved` gave.

    Raises:
        InvalidCalibration: it did not give this.
    """
    costs, known = Costs(), dict[Subject, Acceptance]()
    for place, entry in _entries(value, "costs"):
        kind, context, rows = (entry.get(name) for name in ("kind", "context", "rows"))
        if kind not in KINDS:
            raise InvalidCalibration(f"{place}.kind", kind, f"one of {', '.join(KINDS)}")
        own = kind, _whole(f"{place}.rows", rows, 1), bucket(_whole(f"{place}.context", context, 0))
        costs = costs.after(*own, _number(f"{place}.seconds", entry.get("seconds"), above=0))
    for place, entry in _entries(value, "acceptance"):
        rates = entry.get("rates")
        if not isinstance(rates, list) or len(rates) >= DEEPEST:
            raise InvalidCalibration(f"{place}.rates", rates, f"a list of up to {DEEPEST - 1} numbers")
        numbers = [_number(f"{place}.rates[{depth}]", rate, most=1) for depth, rate in enumerate(rates)]
        known[_subject(place, entry)] = Acceptance.of(numbers, WORTH)
    return replace(Table(tuple(widths)), costs=costs, record=Record(known), reading=_reading(value))


def _reading(value: Mapping[str, Any]) -> Reading:
    usually, beyond = dict[Others, float](), dict[int, float]()
    for place, entry in _entries(value, "usual"):
        others = Others.of(
            _whole(f"{place}.sessions", entry.get("sessions"), 1),
            drafting=_flag(f"{place}.drafting", entry.get("drafting")),
        )
        usually[others] = _number(f"{place}.seconds", entry.get("seconds"), above=0)
    for place, entry in _entries(value, "extra"):
        rows = _whole(f"{place}.rows", entry.get("rows"), FEWEST)
        beyond[rows] = _number(f"{place}.seconds", entry.get("seconds"))
    return Reading.of(usually, beyond)


def _entries(value: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    entries = value.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidCalibration(name, entries, "a list of objects")
    return [(f"{name}[{place}]", entry) for place, entry in enumerate(entries)]


def _subject(place: str, entry: Mapping[str, Any]) -> Subject:
    source, phase, trusted = str(entry.get("source")), str(entry.get("phase")), entry.get("trusted")
    if source not in SOURCES:
        raise InvalidCalibration(f"{place}.source", source, f"one of {', '.join(SOURCES)}")
    if phase not in PHASES:
        raise InvalidCalibration(f"{place}.phase", phase, f"one of {', '.join(PHASES)}")
    return Subject(SOURCES[source], PHASES[phase], _flag(f"{place}.trusted", trusted))


def _flag(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidCalibration(place, value, "true or false")
    return value


def _whole(place: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidCalibration(place, value, f"a whole number of at least {least}")
    return value


def _number(place: str, value: object, *, above: float = -1.0, most: float = float("inf")) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST
    if not number or not max(above, -1e-9) < value <= most:
        raise InvalidCalibration(place, value, f"a number above {above:g}" if above >= 0 else f"between 0 and {most:g}")
    return float(value)
