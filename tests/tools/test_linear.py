"""Eight times the text costs about eight times the work, whatever the text is and however it arrives."""

from collections.abc import Callable

import pytest

from tests.tools.hostile import FLOODS, Flood, seconds, stop_seconds

TIMES = 8
MOST = 20
"""Linear work grows 8 times, quadratic 64 times; between them lies the noise of a busy machine."""
NOTICED = 0.01
"""Seconds below which a growth cannot be measured."""


def _growth(cost: Callable[[int], float], size: int) -> float:
    """The least growth of a few tries, since noise only adds."""
    least = float("inf")
    for _ in range(4):
        large = cost(size * TIMES)
        least = min(least, large / max(cost(size), NOTICED / TIMES))
        if least < MOST or large < NOTICED:
            break
    return least


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
@pytest.mark.parametrize(("size", "step"), [(16_384, 1 << 30), (3_072, 1)], ids=["whole", "by characters"])
def test_reading_is_linear(flood: Flood, size: int, step: int) -> None:
    assert _growth(lambda size: seconds(flood.text(size), step, thinking=flood.thinking), size) < MOST


@pytest.mark.parametrize(("size", "step"), [(16_384, 1 << 30), (3_072, 1)], ids=["whole", "by characters"])
def test_stopping_is_linear(size: int, step: int) -> None:
    assert _growth(lambda size: stop_seconds("a" * size, step, ["a" * 20 + "b", "ab" * 9]), size) < MOST
