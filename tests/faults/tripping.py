"""Scripted networks, caches and a store in which one step of a round raises when its time has come."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import mlx.core as mx

from models.contract import LayerCache, Output, Row, Rows
from models.decode.flight import read_ids
from models.decode.prefix import Fetch, Found, PrefixStore
from models.decode.sampling import Noise, Pick, draw
from models.decode.trie import Ids
from tests.decode.scripted import History, ScriptedSpeculator, ScriptedTarget, blurred

Step = Literal[
    "prefill", "verify", "draft", "fuse", "absorb", "draw", "read", "rollback",
    "find", "places", "fetch", "restore", "snapshot", "keep", "spill",
]  # fmt: skip
ROUND: tuple[Step, ...] = ("prefill", "verify", "draft", "fuse", "absorb", "draw", "read", "rollback")
STORE: tuple[Step, ...] = ("find", "places", "fetch", "restore", "snapshot", "keep", "spill")

Got = TypeVar("Got")


class Tripped(RuntimeError):
    """The fault itself."""


@dataclass
class Wire:
    """Raises at the call number `at` of `step`, and at the `times` - 1 calls after it."""

    step: Step
    at: int
    times: int = 1
    late: bool = False
    """The step is done before it raises, as when a later part of it fails."""
    calls: Counter[Step] = field(default_factory=Counter)
    fired: int = 0

    def over(self, step: Step, work: Callable[[], Got]) -> Got:
        """Do the step's work, or raise before or after it."""
        self.calls[step] += 1
        trips = step == self.step and self.at <= self.calls[step] < self.at + self.times
        self.fired += trips
        if trips and not self.late:
            raise Tripped(step)
        got = work()
        if trips:
            raise Tripped(step)
        return got


class TrippingHistory(History):
    """A cache whose ways back and out may fail."""

    def __init__(self, wire: Wire, slack: int = 0) -> None:
        super().__init__(slack)
        self._wire = wire

    def rollback(self, n: int) -> None:
        self._wire.over("rollback", lambda: super(TrippingHistory, self).rollback(n))

    def snapshot(self, start: int, stop: int) -> Rows:
        return self._wire.over("snapshot", lambda: super(TrippingHistory, self).snapshot(start, stop))

    def restore(self, parts: Sequence[Rows]) -> None:
        self._wire.over("restore", lambda: super(TrippingHistory, self).restore(parts))


class TrippingTarget(ScriptedTarget):
    """Its passes are prefill where a row does not draw, and verify where all do."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        return [TrippingHistory(self._wire, slack)]

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        step: Step = "verify" if logit_rows is None else "prefill"
        work = super().__call__
        return self._wire.over(step, lambda: work(ids, rows, taps=taps, logit_rows=logit_rows))


class TrippingSpeculator(ScriptedSpeculator):
    """Right now and then."""

    def __init__(self, target: ScriptedTarget, wire: Wire) -> None:
        super().__init__(target, blurred)
        self._wire = wire

    def make_context(self) -> list[LayerCache]:
        return [TrippingHistory(self._wire)]

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        return self._wire.over("fuse", lambda: super(TrippingSpeculator, self).fuse(taps))

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        self._wire.over("absorb", lambda: super(TrippingSpeculator, self).absorb(fused, rows))

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        return self._wire.over("draft", lambda: super(TrippingSpeculator, self).draft_block(anchors, rows))


class TrippingStore(PrefixStore):
    """A store each of whose ways in and out may fail."""

    def __init__(self, budget: int, wire: Wire) -> None:
        super().__init__(budget)
        self._wire = wire

    def find(self, prompt: Sequence[int] | Ids, *, drafting: bool) -> Found:
        return self._wire.over("find", lambda: super(TrippingStore, self).find(prompt, drafting=drafting))

    def places(self, wanted: Sequence[int], found: Found, length: int) -> tuple[int, ...]:
        return self._wire.over("places", lambda: super(TrippingStore, self).places(wanted, found, length))

    def keep(self, tokens: Sequence[int], caches: Sequence[LayerCache], context: Sequence[LayerCache]) -> None:
        self._wire.over("keep", lambda: super(TrippingStore, self).keep(tokens, caches, context))

    def fetch(self, prompt: Sequence[int], *, drafting: bool) -> Fetch | None:
        return self._wire.over("fetch", lambda: super(TrippingStore, self).fetch(prompt, drafting=drafting))

    def spill(self, tokens: Sequence[int]) -> None:
        self._wire.over("spill", lambda: super(TrippingStore, self).spill(tokens))


def tripping_read(wire: Wire) -> Callable[[mx.array], list[int]]:
    """How the host reads a round."""
    return lambda packed: wire.over("read", lambda: read_ids(packed))


def tripping_draw(wire: Wire) -> Callable[[mx.array, Sequence[Pick], Noise], mx.array]:
    """How ids are drawn, in drafts and in rows."""
    return lambda logits, picks, noise: wire.over("draw", lambda: draw(logits, picks, noise))
