"""A signal in the middle of everything: in time, with a word to everybody, and what was kept is there afterwards."""

import json
import signal
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx2

from models.decode.archive import read
from server.serving import NOT_STARTED, STOPPED
from tests.faults.life import life
from tests.faults.tally import Tally
from tests.server.stand import PATIENCE, wait_until
from tests.server.wire import events, refused

IN_TIME = 5.0
"""Seconds from the first signal to the end of the process: what the server promises, at its default grace."""

LONG: dict[str, Any] = {"max_tokens": 2500, "min_tokens": 2500, "temperature": 1}
SAID = [{"role": "user", "content": "Tell me about everything."}]
STREAMED = {
    "/v1/chat/completions": LONG | {"messages": SAID, "stream": True},
    "/v1/completions": LONG | {"prompt": "Everything", "stream": True},
    "/v1/messages": {"model": "any", "max_tokens": 1500, "messages": [{"role": "user", "content": "Why? " * 500}]}
    | {"stream": True},
}
"""Two that are under way, and one whose prompt takes its time."""


def streamed(http: httpx2.Client, path: str) -> str:
    """What a client hears to the end; a stream that only breaks off raises."""
    with http.stream("POST", path, json=STREAMED[path]) as response:
        return "".join(response.iter_text())


def busy(http: httpx2.Client, pool: ThreadPoolExecutor) -> tuple[dict[str, Future[str]], Future[httpx2.Response]]:
    """Streams and a plain answer, all of them under way."""
    streams = {path: pool.submit(streamed, http, path) for path in STREAMED}
    plain = pool.submit(http.post, "/v1/chat/completions", json=LONG | {"messages": SAID})
    wait_until(lambda: http.get("/health").json()["running"] == len(streams) + 1)
    assert not any(told.done() for told in streams.values())
    return streams, plain


def ended(told: str) -> str:
    """With which error a stream ended."""
    last = json.loads(events(told)[-1].rpartition("data: ")[2])
    return last["error"].get("code") or last["error"]["type"]


def test_a_signal_in_the_middle_of_everything_loses_nothing(tmp_path: Path, tally: Tally) -> None:
    with life(tmp_path, "tests.faults.behind") as first, ThreadPoolExecutor(len(STREAMED) + 1) as pool:
        said, cached = first.ask("Oslo")
        assert (cached, list(tmp_path.glob("*/*.kv"))) == (0, [])
        streams, plain = busy(first.http, pool)
        first.process.send_signal(signal.SIGTERM)
        assert {path: ended(told.result()) for path, told in streams.items()} == {
            "/v1/chat/completions": "server_stopping",
            "/v1/completions": "server_stopping",
            "/v1/messages": "overloaded_error",
        }
        assert (plain.result().status_code, refused(plain.result())["code"]) == (503, "server_stopping")
        assert first.process.wait(PATIENCE) == STOPPED
    assert list(tmp_path.glob("*/*.part")) == []
    for path in tmp_path.glob("*/*.kv"):
        read(path, path.parent.name)
    with life(tmp_path) as second:
        again, cached = second.ask("Oslo")
        assert again == said
        assert cached > 0
    tally.case("a signal under load", tried=len(STREAMED) + 2)


def test_a_signal_ends_a_busy_server_in_the_time_that_is_promised(tmp_path: Path, tally: Tally) -> None:
    with life(tmp_path) as first, ThreadPoolExecutor(len(STREAMED) + 1) as pool:
        streams, plain = busy(first.http, pool)
        first.process.send_signal(signal.SIGTERM)
        # Where the machine is too busy for an orderly end, the end is forced.
        assert first.process.wait(IN_TIME) in (STOPPED, NOT_STARTED)
        wait([*streams.values(), plain])
    tally.case("a signal under load: in time", tried=len(STREAMED) + 1)
