"""The embedded pair behind a real socket: the README's tool example, streamed by the SDK, decoded block by block."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolParam

from models.runtime import load_runtime
from server.settings import Settings
from tests.server.stand import running, wait_until

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}
ASK: ChatCompletionMessageParam = {"role": "user", "content": "What is the weather in Oslo?"}


@pytest.fixture(scope="module")
def sdk() -> Iterator[openai.OpenAI]:
    with (
        running(partial(load_runtime, None, "auto"), Settings()) as (port, engine),
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        wait_until(lambda: engine.health.state != "loading", 60)
        yield client


def streamed(
    sdk: openai.OpenAI, *messages: ChatCompletionMessageParam, temperature: float = 0, **extra: object
) -> ChatCompletion:
    state = ChatCompletionStreamState()
    for chunk in sdk.chat.completions.create(
        model="laguna-tiny",
        messages=messages,
        tools=[WEATHER],
        temperature=temperature,
        seed=7,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    ):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def test_the_readme_example_calls_the_tool_and_reads_its_result(sdk: openai.OpenAI) -> None:
    choice = streamed(sdk, ASK, speculation="always").choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] == "Oslo"
    result: ChatCompletionMessageParam = {
        "role": "tool",
        "tool_call_id": call.id,
        "content": '{"temperature": 7, "sky": "cloudy"}',
    }
    spoken = cast("ChatCompletionMessageParam", choice.message.to_dict())
    answer = streamed(sdk, ASK, spoken, result).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.message.content is not None
    assert "7" in answer.message.content
    assert "cloudy" in answer.message.content


@pytest.mark.parametrize("temperature", [0, 0.7, 1.2])
def test_the_text_is_the_same_whatever_speculation_does_alone_and_beside_others(
    sdk: openai.OpenAI, temperature: float
) -> None:
    plain = streamed(sdk, ASK, temperature=temperature, speculation="off")
    drafted = streamed(sdk, ASK, temperature=temperature, speculation="always")
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(streamed, sdk, ASK, temperature=1, speculation="always") for _ in range(3)]
        beside = pool.submit(streamed, sdk, ASK, temperature=temperature).result()
        assert all(other.result().choices for other in others)
    assert said(plain) == said(drafted) == said(beside)


def said(answer: ChatCompletion) -> list[object]:
    """Everything but the ids of calls."""
    message = answer.choices[0].message
    called = [call.to_dict()["function"] for call in message.tool_calls or ()]
    return [message.content, (message.model_extra or {}).get("reasoning_content"), called]
