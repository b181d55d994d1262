"""Slots, the line, cancelled clients, failures and death: the engine behind a real socket."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import httpx2
import pytest

from models.decode.prefix import PrefixStore
from models.decode.session import InvalidRequest, Request, Sampling, Session
from models.decode.width import Table
from server.api.chat import schema
from server.backend import Pair
from server.engine import Engine
from server.errors import UnreadableBody
from server.settings import Settings
from tests.server.script import EOS, ScriptBatch, ScriptPair, forever, ids_of, says, text_of
from tests.server.stand import asked, half_open, half_sent, running, stand, wait_until
from tests.server.wire import chunks, refused

SAID = [{"role": "user", "content": "hi"}]
IN_EVERY_DIALECT = {
    "chat/completions": {"messages": SAID},
    "completions": {"prompt": "hi", "max_tokens": 3000},
    "responses": {"input": "hi"},
    "messages": {"model": "any", "messages": SAID, "max_tokens": 3000},
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", IN_EVERY_DIALECT)
def test_a_client_that_leaves_frees_its_slot_within_a_round(path: str, streamed: bool) -> None:
    with stand(ScriptPair(forever, pace=0.01), concurrency=1, context_length=100_000) as served:
        sock = half_sent(served, path, IN_EVERY_DIALECT[path] | {"stream": streamed})
        served.wait_until(lambda: served.pair.sessions == 1)
        sock.close()
        served.wait_until(lambda: served.pair.sessions == 0)
        assert served.engine.health.running == 0
        assert served.post(max_tokens=3).status_code == 200


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_leaves_the_line_never_starts(streamed: bool) -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with stand(pair, concurrency=1) as served:
        first = half_open(served)
        served.wait_until(lambda: len(pair.requests) == 1)
        waiting = half_open(served, stream=streamed, seed=7)
        served.wait_until(lambda: served.engine.health.waiting == 1)
        waiting.close()
        served.wait_until(lambda: served.engine.health.waiting == 0)
        pair.gate.set()
        assert first.recv(1000).startswith(b"HTTP/1.1 200")
        first.close()
        assert served.post().status_code == 200
        assert 7 not in [request.sampling.seed for request in pair.requests]


def test_a_full_line_refuses_at_once_and_the_server_still_answers() -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with stand(pair, concurrency=1, queue=2) as served, ThreadPoolExecutor(3) as pool:
        taken = [pool.submit(served.post) for _ in range(3)]
        served.wait_until(lambda: served.engine.health.running + served.engine.health.waiting == 3)
        for streamed in (True, False):
            response = served.post(stream=streamed)
            assert (response.status_code, refused(response)["code"]) == (429, "queue_full")
            assert int(response.headers["retry-after"]) > 0
        assert served.http.get("/health").json()["waiting"] == 2
        assert served.http.get("/v1/models").status_code == 200
        pair.gate.set()
        assert [future.result().status_code for future in taken] == [200, 200, 200]
        served.wait_until(lambda: served.engine.health.running == 0)
        assert served.post().status_code == 200


def test_a_full_line_refuses_before_it_renders() -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with stand(pair, concurrency=1, queue=0) as served:
        taken = half_open(served)
        served.wait_until(lambda: served.engine.health.running == 1)
        assert served.post(chat_template_kwargs={"refuse": True}).status_code == 429
        taken.close()


def test_an_answer_that_nobody_reads_keeps_no_place() -> None:
    async def unread() -> str:
        engine = Engine(lambda: ScriptPair(says("abcdef")), Settings(concurrency=1, queue=0))
        await engine.start()
        while engine.health.state == "loading":
            await asyncio.sleep(0.01)
        try:
            request = Request(ids_of("x"), Sampling(), 100, frozenset({EOS}))
            mail, _ = engine.submit([request])
            while engine.health.running or engine.health.waiting:
                await asyncio.sleep(0.01)
            engine.submit([request])
            # Nobody looked, so all of it is one delivery.
            _, progress = await mail.next()
            assert progress.finish == "stop"
            return text_of(progress.ids)
        finally:
            await engine.stop()

    assert asyncio.run(asyncio.wait_for(unread(), 30)) == "abcdef"


def test_while_a_body_is_checked_everybody_else_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    checking, checked = threading.Event(), threading.Event()

    def slow(body: bytes) -> NoReturn:
        checking.set()
        assert checked.wait(30)
        raise UnreadableBody("slow")

    monkeypatch.setattr(schema, "understood", slow)
    with stand(ScriptPair(says("ok"))) as served, ThreadPoolExecutor(1) as pool:
        response = pool.submit(served.post)
        assert checking.wait(30)
        assert served.http.get("/health").status_code == 200
        checked.set()
        assert response.result().status_code == 400


def test_requests_beyond_the_places_wait_their_turn() -> None:
    pair = ScriptPair(says("some longer text"), pace=0.005)
    with stand(pair, concurrency=2) as served, ThreadPoolExecutor(5) as pool:
        responses = list(pool.map(lambda _: served.post(), range(5)))
        assert {response.json()["choices"][0]["message"]["content"] for response in responses} == {"some longer text"}
        assert pair.most_sessions == 2


def test_a_session_that_raises_fails_alone() -> None:
    def sometimes(prompt: str) -> list[tuple[int, ...] | Exception]:
        return [ids_of("ab"), RuntimeError("no")] if "bad" in prompt else [ids_of("a")] * 20

    with stand(ScriptPair(sometimes, pace=0.005)) as served, ThreadPoolExecutor(2) as pool:
        good = pool.submit(served.post)
        bad = served.post(messages=[{"role": "user", "content": "bad"}])
        assert (bad.status_code, refused(bad)["code"]) == (500, "generation_failed")
        assert good.result().json()["choices"][0]["message"]["content"] == "a" * 20


def test_a_request_that_the_batch_does_not_take_fails_alone() -> None:
    class Picky(ScriptBatch):
        def add(self, request: Request) -> Session:
            if request.sampling.seed == 5:
                raise InvalidRequest("prompt", 9, "smaller")
            return super().add(request)

    class PickyPair(ScriptPair):
        def batch(
            self, *, prefill_chunk: int, prefix: PrefixStore | None = None, learned: Table | None = None
        ) -> ScriptBatch:
            return Picky(self)

    with stand(PickyPair(says("ok"))) as served:
        assert refused(served.post(seed=5))["code"] == "generation_failed"
        assert served.post(seed=6).status_code == 200


def test_a_round_that_raises_fails_its_requests_and_the_next_ones_work() -> None:
    with stand(ScriptPair(says("ok"), broken_rounds=2)) as served:
        for _ in range(2):
            response = served.post()
            assert refused(response)["code"] == "generation_failed"
            assert "secret" not in response.text
        assert served.post().json()["choices"][0]["message"]["content"] == "ok"
        assert served.http.get("/health").status_code == 200


def test_a_dead_thread_is_visible_and_everybody_who_waits_hears_of_it_at_once() -> None:
    pair = ScriptPair(says("ok"), broken_rounds=10**6)
    pair.gate.clear()
    with stand(pair, concurrency=1) as served, ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(served.post, stream=index % 2 == 0) for index in range(5)]
        served.wait_until(lambda: served.engine.health.waiting == 4)
        pair.gate.set()
        texts = [future.result().text for future in futures]
        assert all("generation_failed" in text or "engine_dead" in text for text in texts)
        assert sum("engine_dead" in text for text in texts) == 3
        assert not any("[DONE]" in text for text in texts)
        health = served.http.get("/health")
        assert (health.status_code, health.json()["status"], health.json()["reason"]) == (503, "dead", "RuntimeError")
        for response in (served.post(), served.http.get("/ready"), served.http.get("/v1/models")):
            assert (response.status_code, refused(response)["code"]) == (503, "engine_dead")
            assert response.headers["x-should-retry"] == "false"


def test_while_the_model_loads_the_server_is_alive_but_not_ready() -> None:
    loaded = threading.Event()

    def load() -> Pair:
        assert loaded.wait(30)
        return ScriptPair(says("ok"))

    with running(load, Settings()) as (port, engine), httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
        assert http.get("/health").json()["status"] == "loading"
        for response in (
            http.get("/ready"),
            http.get("/models"),
            http.post("/chat/completions", json=asked(stream=True)),
        ):
            assert (response.status_code, refused(response)["code"]) == (503, "model_loading")
            assert response.headers["retry-after"]
        loaded.set()
        wait_until(lambda: http.get("/ready").status_code == 200)
        assert http.get("/ready").json() == {"status": "ready", "model": "poolside/Laguna-Script"}
        assert engine.health.state == "ready"


@pytest.mark.parametrize("error", [ValueError("no weights"), PermissionError(13, "Permission denied", "/a/file")])
def test_why_a_model_cannot_be_loaded_is_one_line_of_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> Pair:
        raise error

    given_up = threading.Event()
    with running(load, Settings(), given_up.set):
        assert given_up.wait(30)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (record.getMessage(), record.exc_info) == (f"the model cannot be loaded: {error}", False)


def test_a_model_that_cannot_be_loaded_is_a_dead_engine() -> None:
    def load() -> Pair:
        raise FileNotFoundError("/secret/path")

    given_up = threading.Event()
    with (
        running(load, Settings(), given_up.set) as (port, _),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http,
    ):
        assert given_up.wait(30)
        health = http.get("/health")
        assert (health.status_code, health.json()["reason"]) == (503, "FileNotFoundError")


def test_health_tells_of_the_last_round_and_of_a_round_that_hangs() -> None:
    pair = ScriptPair(says("ok"))
    with stand(pair) as served, ThreadPoolExecutor(1) as pool:
        before = served.http.get("/health").json()
        assert (before["status"], before["last_step_age_seconds"], before["running"]) == ("ok", None, 0)
        served.post()
        assert served.http.get("/health").json()["last_step_age_seconds"] < 5
        assert served.http.get("/health").json()["step_under_way_seconds"] is None
        pair.gate.clear()
        hanging = pool.submit(served.post)
        served.wait_until(lambda: (served.http.get("/health").json()["step_under_way_seconds"] or 0) > 0.05)
        pair.gate.set()
        hanging.result()


def test_health_says_what_speculation_is_in_effect_and_why() -> None:
    for settings, off, expected in (
        ({}, None, {"mode": "auto", "off": None}),
        ({"speculation": "off"}, None, {"mode": "off", "off": "turned off by the settings"}),
        ({"speculation": "always"}, "no speculator", {"mode": "off", "off": "no speculator"}),
    ):
        with stand(ScriptPair(says("ok"), speculation_off=off), **settings) as served:
            assert served.http.get("/health").json()["speculation"] == expected


def test_a_request_is_drawn_as_it_asks_and_else_as_the_checkpoint_says() -> None:
    with stand(ScriptPair(says("ok")), speculation="always") as served:
        served.post()
        served.post()
        served.post(temperature=0, top_p=0.5, top_k=-1, min_p=0.1, seed=-5, speculation="off", max_completion_tokens=9)
        first, second, third = served.pair.requests
        assert (first.sampling.temperature, first.sampling.top_k, first.sampling.top_p) == (0.7, 20, 0.95)
        assert first.sampling.seed != second.sampling.seed
        assert first.speculation == "always"
        drawn = third.sampling
        assert (drawn.temperature, drawn.top_p, drawn.top_k, drawn.min_p, drawn.seed) == (0, 0.5, 0, 0.1, -5)
        assert (third.speculation, third.max_tokens) == ("off", 9)


def test_the_thread_ends_with_the_server_and_frees_what_it_held() -> None:
    with stand(ScriptPair(forever, pace=0.01), context_length=100_000) as served:
        sock = half_open(served, stream=True)
        served.wait_until(lambda: served.pair.sessions == 1)
        sock.close()
    assert "engine" not in {thread.name for thread in threading.enumerate()}
    assert served.engine.health.state == "stopped"


def test_streams_side_by_side_all_reach_their_end() -> None:
    def count(prompt: str) -> Iterator[tuple[int, ...]]:
        return (ids_of(f"{number} ") for number in range(40))

    with stand(ScriptPair(count), concurrency=4) as served, ThreadPoolExecutor(12) as pool:
        responses = list(pool.map(lambda _: served.post(stream=True), range(12)))
        assert {chunks(response)[-1]["choices"][0]["finish_reason"] for response in responses} == {"stop"}
