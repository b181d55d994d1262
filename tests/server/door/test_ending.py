"""How the process ends: in time, by a status that says why, and never in silence."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2

from tests.server.process import answers, free_port
from tests.server.stand import PATIENCE, asked, wait_until
from tests.server.wire import refused


@contextmanager
def failing(how: str, **settings: str) -> Generator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """A server in a process of its own whose engine fails in this way, ready for its first request."""
    port = free_port()
    environment = os.environ | {f"LAGUNA_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "tests.server.door.failing", str(port), how]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            wait_until(lambda: answers(http))
            yield process, http
    finally:
        process.kill()
        process.communicate()


def test_a_dead_engine_says_so_to_everybody_and_ends_the_process_with_a_status_of_its_own() -> None:
    with failing("dies", log_format="json") as (process, http), ThreadPoolExecutor(4) as pool:
        asks = [pool.submit(http.post, "/v1/chat/completions", json=asked(stream=index > 1)) for index in range(4)]
        texts = [ask.result().text for ask in asks]
        assert all("generation_failed" in text or "engine_dead" in text for text in texts)
        assert not any("[DONE]" in text for text in texts)
        for _ in range(3):
            health = http.get("/health")
            if health.status_code == 503:
                break
            http.post("/v1/chat/completions", json=asked())
        assert (health.status_code, health.json()["status"], health.json()["reason"]) == (503, "dead", "RuntimeError")
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3
    lines = [json.loads(line) for line in said.splitlines() if line]
    assert [line for line in lines if line["level"] == "error" and "engine died" in line["message"]]
    assert {line["outcome"] for line in lines if "outcome" in line} >= {"generation_failed"}


def test_a_round_that_hangs_does_not_hold_the_process_back() -> None:
    with failing("hangs", shutdown_grace="0.2") as (process, http), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.post, "/v1/chat/completions", json=asked())
        wait_until(lambda: http.get("/health").json()["running"] == 1)
        process.send_signal(signal.SIGTERM)
        assert json.loads(waiting.result().text)["error"]["code"] == "server_stopping"
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        # Where it hung, for whoever has to find out why.
        assert "Timeout" in said


def test_an_engine_that_hangs_for_good_ends_the_process_as_a_dead_one_does() -> None:
    with failing("hangs", round_timeout="0.5", log_format="json") as (process, http), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.post, "/v1/chat/completions", json=asked())
        assert refused(waiting.result())["code"] == "engine_hung"
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3
    # Where it hangs, for whoever has to find out why.
    assert "in step" in said
    lines = [json.loads(line)["message"] for line in said.splitlines() if line.startswith("{")]
    assert "the engine hangs: no round has ended for 0.5 seconds" in lines
    assert "the engine died (no round has ended for 1 seconds); start the server anew" in lines


def test_a_second_signal_ends_it_at_once() -> None:
    with failing("hangs", shutdown_grace="60") as (process, http), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.post, "/v1/chat/completions", json=asked())
        wait_until(lambda: http.get("/health").json()["running"] == 1)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not answers(http))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert isinstance(waiting.exception(PATIENCE), httpx2.TransportError)
