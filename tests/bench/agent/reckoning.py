"""What could have been cached of a request, and what a trace comes to."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

from tests.bench.client import Body, Heard

Ids = Sequence[int]


@dataclass(frozen=True)
class Asked:
    """One request of a trace and its answers."""

    kind: str
    prompt: int
    """Tokens."""
    ideal: int
    """Tokens that it has in common with the longest beginning of an earlier prompt and its answer."""
    cached: int
    warm: float
    """Seconds to the first text."""
    cold: float | None = None
    """The same for the same request where nothing is kept; None where that was not asked."""


class Past:
    """The timelines that a server has seen, as ids."""

    def __init__(self, encode: Callable[[Body, Sequence[Mapping[str, Any]]], Ids]) -> None:
        """`encode` gives the ids of a request's prompt, or of that and the messages after it."""
        self._encode = encode
        self._seen: list[Ids] = []

    def ideal(self, body: Body) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them, except the last, some earlier timeline begins with."""
        ids = self._encode(body, ())
        return len(ids), min(len(ids) - 1, max((common(ids, other) for other in self._seen), default=0))

    def add(self, body: Body, answer: Mapping[str, Any]) -> None:
        """A request was answered so."""
        self._seen += [self._encode(body, ()), self._encode(body, (answer,))]


def common(one: Ids, other: Ids) -> int:
    """How many ids both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def came_to(asked: Sequence[Asked]) -> dict[str, Any]:
    """Figures of all requests after the first, which nothing could have been cached of."""
    later = asked[1:]
    by_kind = {kind: [one for one in later if one.kind == kind] for kind in dict.fromkeys(one.kind for one in later)}
    return {
        "reuse": sum(one.cached for one in later) / sum(one.ideal for one in later),
        "reuse_by_kind": {k: sum(o.cached for o in own) / sum(o.ideal for o in own) for k, own in by_kind.items()},
        "warm_seconds": statistics.median(one.warm for one in later),
        **_cold(by_kind),
        "requests": len(asked),
        "prompt_tokens": [one.prompt for one in asked],
    }


def _cold(by_kind: Mapping[str, Sequence[Asked]]) -> dict[str, Any]:
    """Warm against cold, as far as that was asked."""
    ratios = {kind: [one.warm / one.cold for one in own if one.cold is not None] for kind, own in by_kind.items()}
    every = list(chain.from_iterable(ratios.values()))
    if not every:
        return {}
    seconds = [one.cold for own in by_kind.values() for one in own if one.cold is not None]
    return {
        "warm_over_cold": statistics.median(every),
        "warm_over_cold_by_kind": {kind: statistics.median(own) for kind, own in ratios.items() if own},
        "cold_seconds": statistics.median(seconds),
    }


def heard_well(heard: Heard, name: str) -> Heard:
    """The answer, if it is one.

    Raises:
        RuntimeError: it is an error.
    """
    if heard.error is not None:
        raise RuntimeError(f"{name}: {heard.error}")
    return heard
