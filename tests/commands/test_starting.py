"""The server that is asked: the one that runs, or one that is started and ends with whoever needed it."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from models.progress import Progress
from server.arrival import Arrival
from server.client.reach import Door, Loading, Served, Unreachable
from server.client.starting import Wanted, attached
from server.settings import Settings
from tests.server.process import free_port
from tests.server.script import ScriptPair, says
from tests.server.stand import running, stand, wait_until


def silent(_: str) -> None:
    """Nothing is said."""


def test_the_server_that_runs_is_asked_and_goes_on_running() -> None:
    with stand(ScriptPair(says("hi"))) as server:
        for wanted in (
            Wanted(Settings(port=server.port)),
            Wanted(Settings(port=1), url=f"http://127.0.0.1:{server.port}/v1"),
            Wanted(Settings(port=server.port), model="Laguna-Script"),
        ):
            with attached(wanted, silent) as served:
                assert (served.model, served.url) == ("poolside/Laguna-Script", f"http://127.0.0.1:{server.port}")
        assert server.http.get("/ready").status_code == 200


def test_a_server_of_another_model_is_not_taken_for_the_wanted_one() -> None:
    with (
        stand(ScriptPair(says("hi"))) as server,
        pytest.raises(Unreachable, match=r"serves poolside/Laguna-Script, not me/Other: .*--port"),
        attached(Wanted(Settings(port=server.port), model="me/Other"), silent),
    ):
        pass


def test_a_server_whose_model_is_on_its_way_is_waited_for() -> None:
    arrival, gate, said = Arrival(), threading.Event(), []

    def load() -> ScriptPair:
        arrival.report(Progress("load", "target", 1, 2))
        gate.wait(30)
        return ScriptPair(says("hi"))

    def say(text: str) -> None:
        said.append(text)
        gate.set()

    with (
        running(load, Settings(), arrival=arrival) as (port, _),
        attached(Wanted(Settings(port=port)), say) as served,
    ):
        assert served.model == "poolside/Laguna-Script"
    assert said == ["loading target: 50 %"]


def test_a_key_is_shown_and_asked_for_where_there_is_none() -> None:
    with stand(ScriptPair(says("hi")), api_key="secret") as server:
        with attached(Wanted(Settings(port=server.port), key="secret"), silent) as served:
            assert served.headers == {"authorization": "Bearer secret"}
        with (
            pytest.raises(Unreachable, match="LAGUNA_API_KEY"),
            attached(Wanted(Settings(port=server.port)), silent),
        ):
            pass


def test_nobody_at_an_address_that_was_named_is_an_error() -> None:
    with (
        pytest.raises(Unreachable, match="laguna serve"),
        attached(Wanted(Settings(), url=f"http://127.0.0.1:{free_port()}"), silent),
    ):
        pass


def answering(body: bytes) -> Callable[..., BaseHTTPRequestHandler]:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Other


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"hello", "another server"),
        (b'{"status": "ok"}', "another server"),
        (b'{"status": "dead", "reason": "OutOfMemory", "last_step_age_seconds": null}', "is dead: OutOfMemory"),
        (b'{"status": "ok", "last_step_age_seconds": null}', "tells no model"),
    ],
)
def test_what_is_no_server_of_ours_or_none_that_works_is_named(body: bytes, said: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), answering(body)) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        door = Door(f"http://127.0.0.1:{other.server_port}", None)
        try:
            with pytest.raises(Unreachable, match=said):
                door.look()
        finally:
            door.close()
            other.shutdown()
            thread.join()


def test_where_none_runs_one_is_started_and_ends_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    # A package of our name in the working directory must not be taken for ours.
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    with attached(Wanted(Settings(port=0), key="secret", flags=("--queue", "3")), said.append) as served:
        assert served.model == "laguna-tiny"
        door = Door(served.url, None)
        with pytest.raises(Unreachable, match="API key"):
            door.look()
    assert "starting one" in said[0]
    assert door.look() is None
    door.close()


def test_a_server_that_cannot_be_started_says_why_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with (
        pytest.raises(Unreachable, match="/no/such/folder"),
        attached(Wanted(Settings(port=0), flags=("--model", "/no/such/folder")), silent),
    ):
        pass


def test_a_signal_ends_the_server_too(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "server", "chat", "--port", str(port), "Write for ever."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
    )
    door = Door(f"http://127.0.0.1:{port}", None)
    try:
        wait_until(lambda: isinstance(door.look(), Loading | Served) or process.poll() is not None)
        process.terminate()
        process.communicate(timeout=30)
        wait_until(lambda: door.look() is None)
    finally:
        process.kill()
        process.wait()
        door.close()
