"""Medians of waves: rates, ratios within a repeat, errors and texts."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench.http.goals import STREAMS
from tests.bench.http.waves import Wave

Repeats = Sequence[Mapping[int, Mapping[str, Wave]]]
"""Waves by repeat, number of streams and server."""
OURS = ("off", "auto")


def rates(repeats: Repeats) -> dict[str, Any]:
    """What the waves come to. Numbers of streams are text, as JSON wants them."""
    arms = list(repeats[0][1])
    waves = [one for by_streams in repeats for by_arm in by_streams.values() for one in by_arm.values()]
    return {
        "tokens_per_second": {
            arm: _by_streams(repeats, lambda streams, waves, arm=arm: waves[streams][arm].rate) for arm in arms
        },
        "over_mlx_lm": {
            arm: _by_streams(repeats, lambda n, waves, arm=arm: waves[n]["mlx_lm"].seconds / waves[n][arm].seconds)
            for arm in OURS
        },
        "aggregate": {
            arm: _by_streams(repeats, lambda n, waves, arm=arm: waves[n][arm].rate / waves[1][arm].rate) for arm in arms
        },
        "errors": [error for one in waves for error in one.errors],
        "texts_that_differ": sum(
            ours != plain
            for by_streams in repeats
            for by_arm in by_streams.values()
            for ours, plain in zip(by_arm["auto"].messages, by_arm["off"].messages, strict=True)
        ),
    }


def _by_streams(repeats: Repeats, value: Callable[[int, Mapping[int, Mapping[str, Wave]]], float]) -> dict[str, float]:
    return {str(n): statistics.median(value(n, waves) for waves in repeats) for n in STREAMS}
