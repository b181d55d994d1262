"""After a failure the engine's thread sleeps: nothing that failed is tried again, and no loop spins."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from models.decode.batch import Update
from models.decode.prefix import PrefixStore
from models.decode.width import Table
from server.ticket import Line
from tests.server.script import Round, ScriptBatch, ScriptPair, ids_of
from tests.server.stand import Stand, stand
from tests.server.wire import refused

A_WHILE = 0.2
"""Seconds in which a loop that spins would go round thousands of times."""


@dataclass
class CountingPair(ScriptPair):
    """Counts the rounds of its batches."""

    rounds: list[int] = field(default_factory=lambda: [0])

    def batch(
        self, *, prefill_chunk: int, prefix: PrefixStore | None = None, learned: Table | None = None
    ) -> ScriptBatch:
        self.sessions = 0
        return CountingBatch(self, self.rounds)


class CountingBatch(ScriptBatch):
    def __init__(self, pair: ScriptPair, rounds: list[int]) -> None:
        super().__init__(pair)
        self._rounds = rounds

    def step(self) -> list[Update]:
        self._rounds[0] += 1
        return super().step()


@dataclass
class Sleeps:
    """How often the engine's thread lay down, and how often it rose."""

    begun: int = 0
    ended: int = 0


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    counted, wait = Sleeps(), Line.wait

    def counting(line: Line) -> None:
        assert threading.current_thread().name == "engine"
        counted.begun += 1
        wait(line)
        counted.ended += 1

    monkeypatch.setattr(Line, "wait", counting)
    return counted


def failing(prompt: str) -> Iterator[Round]:
    """Whatever is asked beside `bad` is answered; that fails in its second round."""
    yield ids_of("ab")
    if "bad" in prompt:
        yield RuntimeError("no")


def alone(served: Stand) -> None:
    bad = served.post(messages=[{"role": "user", "content": "bad"}])
    assert (bad.status_code, refused(bad)["code"]) == (500, "generation_failed")


def whole(served: Stand) -> None:
    served.pair.broken_rounds = 1
    assert refused(served.post())["code"] == "generation_failed"


@pytest.mark.parametrize(("fail", "rounds"), [(alone, 2), (whole, 1)])
def test_a_failed_request_is_dropped_and_the_thread_sleeps(
    sleeps: Sleeps, fail: Callable[[Stand], None], rounds: int
) -> None:
    pair = CountingPair(failing)
    with stand(pair) as served:
        for failures in (1, 2):
            fail(served)
            served.wait_until(lambda: sleeps.begun == sleeps.ended + 1)
            before = (sleeps.begun, pair.rounds[0])
            time.sleep(A_WHILE)
            assert (sleeps.begun, pair.rounds[0]) == before == (before[0], failures * rounds)
            assert (pair.sessions, served.engine.health.running) == (0, 0)
        assert served.post().json()["choices"][0]["message"]["content"] == "ab"
        served.wait_until(lambda: sleeps.begun == sleeps.ended + 1)
        # Each request woke it once, and so did nothing else.
        assert sleeps.begun <= 1 + 3
