"""An engine that gives no sign of life is seen, and seen again when it comes back; the clock is the test's own."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
import pytest

from models.decode.session import Request, Session
from server.engine import Engine
from server.pulse import LOST, Condition, judged
from server.settings import Settings
from tests.faults.hooked import HookedPair
from tests.server.script import ScriptPair, says
from tests.server.stand import PATIENCE, asked, running, wait_until
from tests.server.wire import refused

LIMIT = 50.0


@pytest.mark.parametrize(
    ("seconds", "condition"),
    [
        (None, "well"),
        (0.0, "well"),
        (-5.0, "well"),
        (LIMIT, "well"),
        (LIMIT + 0.1, "hung"),
        (LOST * LIMIT, "hung"),
        (LOST * LIMIT + 0.1, "lost"),
        (1e30, "lost"),
    ],
)
def test_a_pass_that_takes_too_long_hangs_and_after_as_long_again_is_lost(
    seconds: float | None, condition: Condition
) -> None:
    assert judged(seconds, LIMIT) == condition


@dataclass
class Time:
    """Goes on only when it is told to."""

    now: float = 0.0


@dataclass(frozen=True)
class Watched:
    """A server in a time of its own."""

    http: httpx2.Client
    engine: Engine
    pool: ThreadPoolExecutor
    died: threading.Event
    time: Time

    def ask(self, **body: object) -> httpx2.Response:
        return self.http.post("/v1/chat/completions", json=asked(**body))

    def health(self) -> tuple[int, str, str | None]:
        answer = self.http.get("/health")
        return answer.status_code, answer.json()["status"], answer.json()["reason"]

    def gauge(self, name: str) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"laguna_{name} "))


@contextmanager
def watched(pair: ScriptPair) -> Generator[Watched]:
    """One place, so that whoever comes second waits in the line."""
    died, time = threading.Event(), Time()
    settings = Settings(round_timeout=LIMIT, concurrency=1)
    with (
        running(lambda: pair, settings, died.set, clock=lambda: time.now) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        there = Watched(http, engine, pool, died, time)
        wait_until(lambda: engine.state == "ready")
        try:
            yield there
        finally:
            pair.gate.set()


HUNG = (503, "hung", "no round has ended for 50 seconds")


def test_a_round_that_hangs_is_told_to_everybody_and_forgotten_when_it_ends() -> None:
    pair = ScriptPair(says("ok"))
    with watched(pair) as served:
        assert served.ask().status_code == 200
        pair.gate.clear()
        waiting = [served.pool.submit(served.ask, stream=stream) for stream in (False, True)]
        wait_until(lambda: served.engine.health.running + served.engine.health.waiting == 2)
        wait_until(lambda: served.engine.health.step_seconds is not None)
        served.time.now = LIMIT
        assert served.health() == (200, "ok", None)
        served.time.now += 1
        assert served.health() == HUNG
        for heard in (served.ask(), served.http.get("/ready"), served.http.get("/v1/models")):
            assert (heard.status_code, refused(heard)["code"]) == (503, "engine_hung")
            assert heard.headers["retry-after"]
        assert (served.gauge("up"), served.gauge("round_under_way_seconds")) == (0, LIMIT + 1)
        for ask in waiting:
            assert "engine_hung" in ask.result().text
            assert "[DONE]" not in ask.result().text
        assert served.health() == HUNG
        pair.gate.set()
        wait_until(lambda: served.health() == (200, "ok", None))
        assert served.ask().json()["choices"][0]["message"]["content"] == "ok"
        assert not served.died.is_set()


def test_an_engine_that_hangs_for_as_long_again_is_dead() -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with watched(pair) as served:
        waiting = served.pool.submit(served.ask)
        wait_until(lambda: served.engine.health.step_seconds is not None)
        served.time.now = LOST * LIMIT + 1
        assert refused(waiting.result())["code"] == "engine_hung"
        assert served.died.wait(PATIENCE)
        assert served.health() == (503, "dead", "no round has ended for 100 seconds")
        assert refused(served.ask())["code"] == "engine_dead"


def test_what_hangs_between_two_rounds_is_seen_too() -> None:
    goes_on = threading.Event()

    def stuck(_: Session | Request) -> None:
        assert goes_on.wait(PATIENCE)

    with watched(HookedPair(says("ok"), adding=stuck)) as served:
        waiting = served.pool.submit(served.ask)
        wait_until(lambda: served.engine.health.running == 1)
        served.time.now = LIMIT + 1
        assert served.health() == HUNG
        assert refused(waiting.result())["code"] == "engine_hung"
        goes_on.set()
        wait_until(lambda: served.health() == (200, "ok", None))
        assert served.ask().status_code == 200


def test_an_engine_with_nothing_to_do_may_rest_for_ever() -> None:
    with watched(ScriptPair(says("ok"))) as served:
        assert served.ask().status_code == 200
        served.time.now = 1e9
        assert served.health() == (200, "ok", None)
        assert served.ask().status_code == 200
