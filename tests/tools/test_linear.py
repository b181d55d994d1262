"""Eight times the text costs eight times the work, whatever the text is and however it arrives."""

from collections.abc import Callable, Iterator

import pytest

import tools.attempt
import tools.calls
import tools.events
import tools.laguna
import tools.stops
import tools.tags
import tools.values
from tests.counted import Work, counted
from tests.tools.hostile import FLOODS, MEGABYTE, Flood, read, stop

READERS = (tools.laguna, tools.tags, tools.attempt, tools.calls, tools.values, tools.events, tools.stops)
TIMES = 8
MOST = 12
"""Linear work grows 8 times or little more, quadratic 64 times."""
WHOLE = 1 << 30


@pytest.mark.parametrize("name", ["spaces in a union", "escaped quotes", "brackets", "digits"])
def test_a_megabyte_is_within_reach_of_patterns_and_parsers(name: str) -> None:
    """Nobody counts inside them; what is quadratic there takes hours, which no test may."""
    read(FLOODS[name].text(MEGABYTE), WHOLE, thinking=False)


@pytest.fixture(scope="module")
def work() -> Iterator[Work]:
    with counted(*READERS) as work:
        yield work


def _growth(work: Work, reading: Callable[[int], None], size: int) -> float:
    marks = [work.units]
    for each in (size, size * TIMES):
        reading(each)
        marks.append(work.units)
    return (marks[2] - marks[1]) / (marks[1] - marks[0])


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
@pytest.mark.parametrize(("size", "step"), [(2048, WHOLE), (512, 1)], ids=["whole", "by characters"])
def test_reading_is_linear(work: Work, flood: Flood, size: int, step: int) -> None:
    assert _growth(work, lambda size: read(flood.text(size), step, thinking=flood.thinking), size) < MOST


@pytest.mark.parametrize(("size", "step"), [(2048, WHOLE), (512, 1)], ids=["whole", "by characters"])
def test_stopping_is_linear(work: Work, size: int, step: int) -> None:
    assert _growth(work, lambda size: stop("a" * size, step, ["a" * 20 + "b", "ab" * 9]), size) < MOST
