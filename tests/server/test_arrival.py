"""A model on its way: what is shown of it, how it is given up, and the whole way from a hub to an answer."""

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from models.checkpoint import embedded_path
from models.progress import Progress
from server.arrival import Arrival, TurnedBack
from server.display import Display
from server.settings import Settings
from tests.models.fake_hub import Hub, Repository, files, serving
from tests.server.process import answers, free_port
from tests.server.script import ScriptPair, says
from tests.server.stand import asked, running, wait_until

STEP = Progress("load", "target", 250, 1000)


@contextmanager
def served_from(hub: Hub, home: Path, *arguments: str) -> Generator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """`laguna serve` against a hub, with a cache of its own."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--port", str(port), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home)},
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            yield process, http
    finally:
        process.kill()
        process.communicate()


def test_a_pair_is_fetched_from_a_hub_and_answers(tmp_path: Path) -> None:
    with serving() as hub:
        hub.repositories["me/Tiny"] = Repository({"v1": files(embedded_path())})
        hub.repositories["me/Tiny-DFlash"] = Repository({"main": files(embedded_path() / "speculator")})
        flags = ("--model", "me/Tiny", "--revision", "v1", "--speculator", "me/Tiny-DFlash")
        with served_from(hub, tmp_path, *flags) as (process, http):
            wait_until(lambda: answers(http) or process.poll() is not None)
            answer = http.post("/v1/chat/completions", json=asked(model="me/Tiny", max_tokens=5)).json()
            assert answer["usage"]["completion_tokens"] == 5
            assert http.get("/health").json()["loading"] is None
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=30)[1]
    assert "fetching me/Tiny: 6 files" in said
    assert "HTTP Request" not in said


def test_ctrl_c_ends_a_download_that_stands_still(tmp_path: Path) -> None:
    with serving() as hub:
        hub.repositories["me/Tiny"] = Repository({"main": files(embedded_path())})
        hub.stalled["model.safetensors"] = 100_000
        with served_from(hub, tmp_path, "--model", "me/Tiny") as (process, http):
            wait_until(lambda: hub.downloads("model.safetensors") == [None])
            small = sum(len(data) for name, data in files(embedded_path()).items() if name != "model.safetensors")
            wait_until(lambda: loading(http) == ("download", small))
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=15)[1]
    assert process.returncode == 0
    assert "the download was cut off" in said
    assert "Traceback" not in said


def loading(http: httpx2.Client) -> tuple[str, int] | None:
    """The phase that /health tells of, and the bytes that are there."""
    try:
        told = http.get("/health").json()["loading"]
    except httpx2.TransportError:
        return None
    return told and (told["phase"], told["done_bytes"])


def test_health_tells_how_far_the_model_is() -> None:
    arrival, gate = Arrival(), threading.Event()

    def load() -> ScriptPair:
        arrival.report(STEP)
        gate.wait(30)
        return ScriptPair(says("a"))

    with running(load, Settings(), arrival=arrival) as (port, engine):
        wait_until(lambda: engine.health.loading is not None)
        health = httpx2.get(f"http://127.0.0.1:{port}/health").json()
        assert (health["status"], health["loading"]) == (
            "loading",
            {"phase": "load", "what": "target", "fraction": 0.25, "done_bytes": 250, "total_bytes": 1000},
        )
        gate.set()
        wait_until(lambda: engine.health.state == "ready")
        assert httpx2.get(f"http://127.0.0.1:{port}/health").json()["loading"] is None


def test_a_server_that_stops_gives_its_load_up_and_calls_it_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    arrival, failures = Arrival(), list[str]()
    turned: list[bool] = []

    def load() -> ScriptPair:
        try:
            while True:
                arrival.report(STEP)
                threading.Event().wait(0.005)
        except TurnedBack:
            turned.append(True)
            raise

    with caplog.at_level(logging.INFO), running(load, Settings(), lambda: failures.append("x"), arrival) as (_, engine):
        wait_until(lambda: engine.health.loading is not None)
    assert (turned, failures) == ([True], [])
    assert "loading stopped" in caplog.text
    assert not engine.left_behind


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_and_is_clean_again() -> None:
    terminal = Terminal()
    display = Display(terminal)
    for done in range(0, 1001, 100):
        display(Progress("download", "a/b", done, 1000))
    display(Progress("load", "target", 500, 1000))
    shown = terminal.getvalue()
    assert "fetching a/b" in shown
    assert "loading target" in shown
    assert shown.index("fetching a/b") < shown.index("loading target")
    display(Progress("load", "target", 1000, 1000))
    assert terminal.getvalue().endswith("\r")


def test_warming_up_is_counted_in_whole_ways_and_without_a_rate() -> None:
    terminal = Terminal()
    Display(terminal)(Progress("warm-up", "laguna-tiny", 0, 2))
    bar = terminal.getvalue().rstrip().rpartition("\r")[2]
    assert bar.startswith("warming up laguna-tiny:")
    assert bar.endswith("| 0/2")


def test_without_a_terminal_the_log_gets_a_line_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    file, now = io.StringIO(), iter([0.0, 1.0, 11.0, 11.0, 12.0, 30.0, 30.0])
    display = Display(file, clock=lambda: next(now))
    with caplog.at_level(logging.INFO):
        for done in range(1, 5):
            display(Progress("download", "a/b", done * 10**9, 4 * 10**9))
    assert caplog.messages == ["fetching a/b: 50 % of 4.0 GB", "fetching a/b: 100 % of 4.0 GB"]
    assert file.getvalue() == ""
