"""The embedded pair through the SDK's `responses`: tools, forced and free, typed answers, and a chat's text."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel

from models.runtime import load_runtime
from server.settings import Settings
from tests.server.responses.wire import calls, texts
from tests.server.stand import running, wait_until

MODEL = "laguna-tiny"
PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "required": ["city"],
}
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "parameters": PARAMETERS,
    "strict": False,
}
ASK = "What is the weather in Oslo?"
HELLO = "Hello! Wie heißt du?"


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with running(load_runtime, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60) as sdk:
            yield sdk


def test_a_tool_is_called_and_its_result_read_from_what_is_kept(client: openai.OpenAI) -> None:
    with client.responses.stream(model=MODEL, input=ASK, tools=[WEATHER], temperature=0) as stream:
        first = stream.get_final_response()
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
    told: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 7, "sky": "cloudy"}'}
    ]
    second = client.responses.create(
        model=MODEL, input=told, tools=[WEATHER], previous_response_id=first.id, temperature=0
    )
    assert "7" in second.output_text
    assert "cloudy" in second.output_text
    assert second.usage is not None
    assert first.usage is not None
    # What was said before is not read again.
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 1


@pytest.mark.parametrize("temperature", [0, 0.9])
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_the_text_is_that_of_a_chat_completion(client: openai.OpenAI, temperature: float, speculation: str) -> None:
    own = {"seed": 11, "speculation": speculation}
    response = client.responses.create(
        model=MODEL, input=ASK, tools=[WEATHER], temperature=temperature, max_output_tokens=300, extra_body=own
    ).to_dict()
    chat = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": ASK}],
        tools=[{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}],
        temperature=temperature,
        max_tokens=300,
        extra_body=own,
    )
    spoken = chat.choices[0].message.to_dict()
    assert texts(response) == {
        "reasoning": spoken.get("reasoning_content", ""),
        "message": spoken["content"] or "",
    }
    called: Any = spoken.get("tool_calls", [])
    assert calls(response) == [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in called]
    assert chat.usage is not None
    usage: Any = response["usage"]
    assert usage["output_tokens"] == chat.usage.completion_tokens


FORCES: Any = ["required", {"type": "function", "name": "get_weather"}]


@pytest.mark.parametrize("one", [0, 1], ids=["any", "one"])
def test_a_forced_tool_is_called_even_where_nothing_asks_for_it(client: openai.OpenAI, one: int) -> None:
    response = client.responses.create(
        model=MODEL,
        input=HELLO,
        tools=[WEATHER],
        tool_choice=FORCES[one],
        parallel_tool_calls=False,
        reasoning={"effort": "none"},
    )
    (call,) = response.output
    assert call.type == "function_call"
    assert isinstance(json.loads(call.arguments)["city"], str)


class Verdict(BaseModel):
    """An answer in a form."""

    sure: bool
    mood: Literal["good", "bad"]


def test_an_answer_is_parsed_into_its_type(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(
        model=MODEL, input=HELLO, text_format=Verdict, reasoning={"effort": "none"}, max_output_tokens=60
    )
    assert isinstance(parsed.output_parsed, Verdict)
    with client.responses.stream(
        model=MODEL, input=HELLO, text_format=Verdict, reasoning={"effort": "none"}, max_output_tokens=60
    ) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Verdict)


def test_a_schema_that_cannot_be_held_to_is_refused_by_its_place(client: openai.OpenAI) -> None:
    odd = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]}
    with pytest.raises(openai.BadRequestError) as told:
        client.responses.create(
            model=MODEL,
            input=HELLO,
            text={"format": {"type": "json_schema", "name": "odd", "schema": odd, "strict": True}},
        )
    assert told.value.param == "text.format.schema"
    strict: FunctionToolParam = {"type": "function", "name": "odd", "parameters": odd, "strict": True}
    with pytest.raises(openai.BadRequestError) as told:
        client.responses.create(model=MODEL, input=HELLO, tools=[WEATHER, strict])
    assert told.value.param == "tools[1].parameters"


def test_the_tokens_of_a_text_join_to_it_streamed_and_whole(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": MODEL,
        "input": HELLO,
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
        "temperature": 0,
        "reasoning": {"effort": "none"},
        "max_output_tokens": 20,
    }
    whole = client.responses.create(**asked).to_dict()
    output: Any = whole["output"]
    (part,) = output[0]["content"]
    assert "".join(token["token"] for token in part["logprobs"]) == part["text"] != ""
    assert all(len(token["top_logprobs"]) == 2 and token["logprob"] <= 0 for token in part["logprobs"])
    deltas = [
        event for event in client.responses.create(**asked, stream=True) if event.type == "response.output_text.delta"
    ]
    assert [token.token for event in deltas for token in event.logprobs] == [t["token"] for t in part["logprobs"]]


def test_thinking_is_turned_off(client: openai.OpenAI) -> None:
    on, off = (
        client.responses.create(model=MODEL, input=ASK, tools=[WEATHER], reasoning={"effort": effort}, temperature=0)
        for effort in ("high", "none")
    )
    assert [item.type for item in on.output] == ["reasoning", "function_call"]
    assert "reasoning" not in [item.type for item in off.output]
    assert off.usage is not None
    assert off.usage.output_tokens_details.reasoning_tokens == 0
