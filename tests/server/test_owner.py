"""MLX belongs to the engine's thread: nothing that is asked for, however and by whomever, calls it on another."""

import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from types import ModuleType
from typing import Any

import httpx2
import mlx.core as mx
import pytest

from models.runtime import Runtime, load_runtime
from server.settings import Settings
from tests.server.embedded import ASK, WEATHER
from tests.server.stand import running, wait_until

SYSTEM = {"role": "system", "content": "You are a careful assistant. " * 8}
CALLS: dict[str, Any] = {"tools": [WEATHER], "temperature": 0, "max_tokens": 40}
ASKED: list[dict[str, Any]] = [
    CALLS,
    CALLS | {"stream": True, "n": 2, "seed": 3, "temperature": 1},
    CALLS | {"logprobs": True, "top_logprobs": 2, "logit_bias": {"40": 1}, "presence_penalty": 0.5},
    {"response_format": {"type": "json_object"}, "max_tokens": 30, "thinking_token_budget": 4},
    {"prediction": {"type": "content", "content": "Hello there."}, "max_tokens": 20, "min_tokens": 4},
]


def functions() -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """All that MLX can be asked to do."""
    for module in (mx, mx.fast, mx.random, mx.linalg):
        for name, function in vars(module).items():
            if callable(function) and not inspect.isclass(function) and not name.startswith("_"):
                yield module, name, function


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Which threads called what of MLX."""
    called: dict[str, set[str]] = {}

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noting(*arguments: object, **named: object) -> object:
            called.setdefault(threading.current_thread().name, set()).add(name)
            return function(*arguments, **named)

        return noting

    for module, name, function in list(functions()):
        monkeypatch.setattr(module, name, noted(name, function))
    return called


def use(http: httpx2.Client) -> None:
    """Turns side by side and one after another, warm and cold, held and free, heard and left."""

    def ask(body: dict[str, Any]) -> None:
        asked = {"messages": [SYSTEM, ASK]} | body
        assert http.post("/v1/chat/completions", json=asked).status_code == 200

    for body in ASKED:
        ask(body)
    with ThreadPoolExecutor(4) as pool:
        assert [None] * len(ASKED) == list(pool.map(ask, ASKED))
    with http.stream("POST", "/v1/chat/completions", json={"messages": [ASK], "stream": True}) as response:
        next(response.iter_bytes())
    for path in ("/health", "/metrics", "/v1/models"):
        assert http.get(path).status_code == 200
    assert http.post("/tokenize", json={"prompt": "hi"}).status_code == 200
    assert http.post("/v1/messages/count_tokens", json={"model": "m", "messages": [ASK]}).status_code == 200


def test_loading_reading_decoding_keeping_and_freeing_are_all_on_one_thread(callers: dict[str, set[str]]) -> None:
    freed: list[str] = []

    def load() -> Runtime:
        runtime = load_runtime(None, "auto")
        for network in (runtime.target, runtime.speculator):
            weakref.finalize(network, lambda: freed.append(threading.current_thread().name))
        return runtime

    with (
        running(load, Settings()) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        wait_until(lambda: engine.health.state == "ready")
        use(http)
        assert engine.health.kept > 0
    assert callers.keys() == {"engine"}
    assert {"eval", "async_eval", "clear_streams", "concatenate"} <= callers["engine"]
    assert freed == ["engine"] * 2
