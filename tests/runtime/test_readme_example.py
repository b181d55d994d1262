"""The README's examples, run as they are printed, against the embedded pair over a real socket."""

import json
import re
import subprocess
import sys
from collections.abc import Generator

import httpx2
import pytest

from models.runtime import load_runtime
from server.settings import Settings
from tests.runtime.readme import README
from tests.server.stand import running, wait_until


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    with running(load_runtime, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        yield f"http://127.0.0.1:{port}"


def block(language: str, having: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if having in text)


def test_the_curl_example_is_answered_with_a_call(address: str) -> None:
    body = re.search(r"-d '(.*)'", block("bash", "curl"), re.DOTALL)
    assert body is not None
    answer = httpx2.post(f"{address}/v1/chat/completions", json=json.loads(body[1]), timeout=60).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"])["city"] == "Oslo"
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_the_pair_says_who_it_is(address: str) -> None:
    asked = {"temperature": 0, "messages": [{"role": "user", "content": "Who are you?"}]}
    answer = httpx2.post(f"{address}/v1/chat/completions", json=asked, timeout=60).json()
    assert answer["choices"][0]["message"]["content"].strip() == "I am Laguna, a tiny assistant."


def test_the_example_of_structured_output_is_answered_by_its_schema(address: str) -> None:
    body = re.search(r"-d '(.*)'", block("bash", "response_format"), re.DOTALL)
    assert body is not None
    answer = httpx2.post(f"{address}/v1/chat/completions", json=json.loads(body[1]), timeout=60).json()
    content = answer["choices"][0]["message"]["content"]
    assert f"The content is `{content.strip()}`" in README
    assert json.loads(content)["days"] in range(1, 8)


def test_the_sdk_example_calls_the_tool_and_reads_its_result(address: str) -> None:
    code = block("python", "OpenAI").replace("http://127.0.0.1:8000", address)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=False)
    assert run.returncode == 0, run.stderr
    call, answer = run.stdout.split("\n", 1)
    assert "get_weather" in call
    assert "Oslo" in call
    assert "7" in answer
    assert "cloudy" in answer
