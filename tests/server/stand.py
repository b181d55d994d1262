"""A real server on a real socket, around any pair."""

import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
import openai
import uvicorn

from server.app import create_app
from server.arrival import Arrival
from server.backend import Pair
from server.engine import Engine
from server.serving import configured
from server.settings import Settings
from tests.server.script import ScriptPair

PATIENCE = 90.0
"""Seconds until a test gives up; a machine under load is no fault."""


@dataclass(frozen=True)
class Stand:
    """A running server, a plain HTTP client for it, and the SDK's."""

    pair: ScriptPair
    http: httpx2.Client
    sdk: openai.OpenAI
    engine: Engine
    port: int

    def post(self, **body: object) -> httpx2.Response:
        """A chat completion with one user message, unless `messages` says otherwise."""
        return self.http.post("/v1/chat/completions", json=asked(**body))

    def wait_until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        wait_until(holds, seconds)


def asked(**body: object) -> dict[str, object]:
    return {"model": "Laguna-Script", "messages": [{"role": "user", "content": "hi"}]} | body


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def half_open(served: Stand, **body: object) -> socket.socket:
    """A chat request on a bare socket, sent and not read."""
    return half_sent(served, "chat/completions", asked(**body))


def half_sent(served: Stand, path: str, body: dict[str, object]) -> socket.socket:
    """A request on a bare socket, sent and not read."""
    content = json.dumps(body).encode()
    lines = (f"POST /v1/{path} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    head = "\r\n".join([*lines, f"Content-Length: {len(content)}"])
    sock = socket.create_connection(("127.0.0.1", served.port))
    sock.sendall(head.encode() + b"\r\n\r\n" + content)
    return sock


@contextmanager
def running(
    load: Callable[[], Pair],
    settings: Settings,
    on_death: Callable[[], None] | None = None,
    arrival: Arrival | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[tuple[int, Engine]]:
    """The port of a server that has started (its model may still be loading)."""
    engine = Engine(load, settings, on_death=on_death, arrival=arrival, clock=clock)
    quiet = settings.model_copy(update={"port": 0, "log_level": "warning"})
    config = configured(create_app(engine, settings), quiet)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1], engine
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@contextmanager
def stand(pair: ScriptPair, **settings: object) -> Generator[Stand]:
    """A server around a script, loaded and ready."""
    with (
        running(lambda: pair, Settings.model_validate(settings)) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=PATIENCE) as sdk,
    ):
        wait_until(lambda: engine.health.state != "loading")
        try:
            yield Stand(pair, http, sdk, engine, port)
        finally:
            pair.gate.set()
