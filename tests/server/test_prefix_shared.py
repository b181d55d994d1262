"""What several conversations share of the prefix store, and what of it outlives thoughts, strangers and giants."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest

from models.runtime import load_runtime
from server.engine import Engine
from server.settings import Settings
from tests.server.stand import PATIENCE, running, wait_until

Told = dict[str, Any]


def user(text: str) -> Told:
    return {"role": "user", "content": text}


SYSTEM: Told = {"role": "system", "content": "You are a careful assistant who answers in a word or two. " * 12}
STRANGERS = ["What is the weather in Oslo?", "Count to seven, then stop.", "Is the switch on or off?"]
BUDGET = 2 << 20
"""Bytes: two short conversations fit, and a long one does not."""
OPENER = 2
"""Tokens that a prompt ends in: whether they come again hangs on whether the next turn thinks."""


@dataclass(frozen=True)
class Served:
    http: httpx2.Client
    engine: Engine

    def ask(self, messages: Sequence[Told], **more: object) -> Told:
        asked = {"messages": list(messages), "max_tokens": 40, "seed": 3, "temperature": 0.8} | more
        response = self.http.post("/v1/chat/completions", json=asked)
        assert response.status_code == 200, response.text
        return response.json()


@contextmanager
def served(**settings: object) -> Generator[Served]:
    with (
        running(partial(load_runtime, None, "auto"), Settings.model_validate(settings)) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http,
    ):
        wait_until(lambda: engine.health.state == "ready")
        yield Served(http, engine)


@pytest.fixture(scope="module")
def cold() -> Iterator[Served]:
    with served(prefix_cache_gib=0) as there:
        yield there


def brief(asked: Served) -> Callable[[Sequence[Told]], Told]:
    """Ask for a few tokens."""
    return partial(asked.ask, max_tokens=8)


def said(answer: Told) -> tuple[object, ...]:
    (choice,) = answer["choices"]
    return choice["message"].get("reasoning_content"), choice["message"]["content"], choice["finish_reason"]


def cached(answer: Told) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_three_strangers_share_a_long_beginning_and_each_hears_what_it_hears_cold(cold: Served) -> None:
    with served() as warm:
        for place, text in enumerate([*STRANGERS, *STRANGERS]):
            heard = warm.ask([SYSTEM, user(text)])
            assert said(heard) == said(cold.ask([SYSTEM, user(text)]))
            # More than caches grow by at once. The second is who shows where strangers part.
            assert cached(heard) > 256 or place < 2


@pytest.mark.parametrize("effort", ["high", "none"])
def test_a_client_that_drops_the_thinking_keeps_what_the_prompt_before_it_had(cold: Served, effort: str) -> None:
    """All of it but what opened the answer, whether the next turn thinks or not."""
    wishes = {"speculation": "always", "max_tokens": 120}
    with served() as warm:
        first = warm.ask([SYSTEM, user(STRANGERS[0])], reasoning_effort="high", **wishes)
        message = first["choices"][0]["message"]
        assert message["reasoning_content"]
        history = [SYSTEM, user(STRANGERS[0]), {"role": "assistant", "content": message["content"]}, user("And Rome?")]
        second = warm.ask(history, reasoning_effort=effort, **wishes)
        assert said(second) == said(cold.ask(history, reasoning_effort=effort, **wishes))
    assert cached(second) >= first["usage"]["prompt_tokens"] - OPENER


def test_what_is_larger_than_the_store_drives_nothing_out_and_a_crowd_after_it_is_answered(cold: Served) -> None:
    small = [[user(f"Say {word}, please.")] for word in ("hello", "goodbye")]
    giant = [user("word " * 250)]
    with served(prefix_cache_gib=BUDGET / 2**30, concurrency=4) as warm:
        before = [warm.ask(messages) for messages in small]
        assert 0 < warm.engine.health.kept <= BUDGET
        warm.ask(giant)
        assert 0 < warm.engine.health.kept <= BUDGET
        again = [warm.ask(messages) for messages in small]
        assert [cached(answer) for answer in again] == [each["usage"]["prompt_tokens"] - OPENER for each in before]
        crowd = [*small, giant, [user("Hello there.")]] * 5
        with ThreadPoolExecutor(len(crowd)) as pool:
            heard = list(pool.map(brief(warm), crowd))
        assert warm.engine.health.kept <= BUDGET
    wanted = [said(brief(cold)(messages)) for messages in crowd[:4]]
    assert [said(answer) for answer in heard] == wanted * 5
