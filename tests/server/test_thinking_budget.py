"""A budget of thinking over a real socket and through real rounds: it ends thinking, and never what left it."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2
import pytest

from models.runtime import load_runtime
from server.settings import Settings
from tests.server.dictated import dictated
from tests.server.stand import running, wait_until

CITY = "Oslo, and then on to Bergen, Trondheim and at last to Narvik: which of them is the warmest in the autumn?"
CALL = f"<tool_call>get_weather<arg_key>city</arg_key><arg_value>{CITY}</arg_value></tool_call>"
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
BUDGET = 8


@contextmanager
def writing(text: str) -> Generator[httpx2.Client]:
    """A server whose model writes `text` once it may think."""
    with (
        running(partial(dictated, text, "<think>"), Settings()) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=60) as http,
    ):
        wait_until(lambda: engine.health.state == "ready")
        yield http


def asked(http: httpx2.Client, speculation: str) -> dict[str, Any]:
    body = {
        "messages": [{"role": "user", "content": "Where is it warm?"}],
        "tools": [WEATHER],
        "reasoning_effort": "high",
        "thinking_token_budget": BUDGET,
        "temperature": 0,
        "max_tokens": 300,
        "speculation": speculation,
    }
    return http.post("/chat/completions", json=body).json()


def tokens(text: str) -> int:
    return len(load_runtime(None, "none").tokenizer.encode(text))


@pytest.mark.parametrize("speculation", ["off", "always"])
def test_no_end_of_thinking_is_forced_into_a_call_that_was_begun_before_the_budget_was_used_up(
    speculation: str,
) -> None:
    thought = "Let me see."
    assert tokens(thought) < BUDGET < tokens(thought + CALL) - 40
    with writing(thought + CALL) as http:
        answer = asked(http, speculation)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == thought
    (call,) = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": CITY}
    assert answer["usage"]["completion_tokens"] == tokens(thought + CALL)
    assert bool(answer["laguna"]["accepted"]) == (speculation == "always")


@pytest.mark.parametrize("speculation", ["off", "always"])
def test_thinking_that_goes_on_is_ended_by_the_budget(speculation: str) -> None:
    thought = "Let me see: it may be warm in many places, and cold in others."
    assert tokens(thought) > BUDGET
    with writing(thought) as http:
        answer = asked(http, speculation)
    message = answer["choices"][0]["message"]
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == BUDGET
    assert thought.startswith(message["reasoning_content"])
    assert tokens(message["reasoning_content"]) == BUDGET
    assert thought.endswith(message["content"])
