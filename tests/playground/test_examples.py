"""The playground's first cards, asked of the embedded pair as the page asks them: nobody's first answer is nonsense."""

import json
import re
from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from models.runtime import load_runtime
from server.api.pages import FOLDER
from server.settings import Settings
from tests.server.stand import PATIENCE, running, wait_until

CARDS = re.findall(
    r'^  \["[^"]+", "([^"]+)", (?:"(\w+)"|null)\],$', (FOLDER / "app.js").read_text("utf-8"), re.MULTILINE
)
TRIES = 8
"""Choices of one request, each with a seed of its own, at the temperature that the checkpoint asks for."""


def constant(name: str) -> object:
    """A literal of the page's settings, which is JSON but for its bare keys and last commas."""
    settings = (FOLDER / "settings.js").read_text("utf-8")
    found = re.search(rf"^const {name} = (.*?);$", settings, re.MULTILINE | re.DOTALL)
    assert found is not None
    return json.loads(re.sub(r",(\s*[\]}])", r"\1", re.sub(r"(\w+): ", r'"\1": ', found[1])))


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    with running(load_runtime, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        yield f"http://127.0.0.1:{port}"


def choices(address: str, kind: str) -> list[dict[str, Any]]:
    """What comes for the card of this kind."""
    (question,) = [asked for asked, of in CARDS if of == kind]
    schema = {"name": "answer", "schema": constant("SCHEMA"), "strict": True}
    wishes = {
        "tools": {"tools": constant("TOOLS")},
        "schema": {"response_format": {"type": "json_schema", "json_schema": schema}},
        "": {},
    }
    body = {"messages": [{"role": "user", "content": question}], "n": TRIES, "seed": 1, **wishes[kind]}
    answer = httpx2.post(f"{address}/v1/chat/completions", json=body, timeout=PATIENCE).json()
    return [choice["message"] for choice in answer["choices"]]


def test_the_card_with_a_tool_calls_it_for_the_city_that_was_asked_for(address: str) -> None:
    calls = [message["tool_calls"] for message in choices(address, "tools")]
    assert [[call["function"]["name"] for call in each] for each in calls] == [["get_weather"]] * TRIES
    assert {json.loads(each[0]["function"]["arguments"])["city"] for each in calls} == {"Oslo"}


def test_the_card_with_a_schema_tells_of_the_city_that_was_asked_for(address: str) -> None:
    assert {json.loads(message["content"])["city"] for message in choices(address, "schema")} == {"Oslo"}


def test_the_plain_card_is_answered_in_words(address: str) -> None:
    assert {message["content"] for message in choices(address, "")} == {"I am Laguna, a tiny assistant."}
