"""The embedded pair under forced calls and schemas, through the SDK: valid whatever is asked, streamed or whole."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from jsonschema import Draft202012Validator
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel, Field

from tests.server.embedded import WEATHER, embedded

COUNT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "count",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 0, "maximum": 99},
                "how": {"anyOf": [{"enum": ["up", "down"]}, {"type": "null"}]},
                "steps": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
            },
            "required": ["n", "how", "steps"],
            "additionalProperties": False,
        },
    },
}
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in (WEATHER, COUNT)}
ASKS = ["What is the weather in Oslo?", "Hello there.", "Count to seven, then stop."]


class Verdict(BaseModel):
    """What a typed answer is read into."""

    word: Literal["yes", "no", "perhaps"]
    score: int = Field(ge=0, le=10)
    sure: bool | None


@pytest.fixture(scope="module")
def sdk() -> Iterator[openai.OpenAI]:
    with embedded() as client:
        yield client


def asked(sdk: openai.OpenAI, ask: str, **body: Any) -> ChatCompletion:  # noqa: ANN401
    """Without thinking, unless `body` says otherwise."""
    messages = [{"role": "user", "content": ask}]
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 60} | body
    return sdk.chat.completions.create(model="laguna-tiny", messages=messages, extra_body=extra)  # ty: ignore


def streamed(sdk: openai.OpenAI, ask: str, **body: Any) -> ChatCompletion:  # noqa: ANN401
    state, messages = ChatCompletionStreamState(), [{"role": "user", "content": ask}]
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 60} | body
    for chunk in sdk.chat.completions.create(model="laguna-tiny", messages=messages, stream=True, extra_body=extra):  # ty: ignore
        state.handle_chunk(chunk)
    return state.get_final_completion()


def said(answer: ChatCompletion) -> list[object]:
    """Everything but the ids of calls; a stream says nothing as empty content."""
    return [(choice.finish_reason, choice.message.content or "", called(choice.message)) for choice in answer.choices]


def called(message: ChatCompletionMessage) -> list[tuple[str, str]]:
    functions = [call.function for call in message.tool_calls or () if call.type == "function"]
    return [(function.name, function.arguments) for function in functions]


def check_calls(answer: ChatCompletion, *names: str) -> None:
    """Nothing but whole, valid calls of these tools; or a cut answer, which has the calls before the cut."""
    for choice in answer.choices:
        calls = called(choice.message)
        assert choice.finish_reason == "length" or (choice.finish_reason == "tool_calls" and calls)
        for name, arguments in calls:
            assert name in names
            Draft202012Validator(SCHEMAS[name]).validate(json.loads(arguments))


@pytest.mark.parametrize(("ask", "temperature"), list(zip(ASKS, [0, 1.3, 0.7], strict=True)))
def test_a_named_call_is_that_one_call_whatever_is_asked(sdk: openai.OpenAI, ask: str, temperature: float) -> None:
    for tool in (WEATHER, COUNT):
        name = tool["function"]["name"]
        choice = {"type": "function", "function": {"name": name}}
        body = {"tools": [WEATHER, COUNT], "tool_choice": choice, "temperature": temperature, "seed": 4, "n": 2}
        whole = asked(sdk, ask, **body)
        check_calls(whole, name)
        assert all(len(choice.message.tool_calls or ()) <= 1 for choice in whole.choices)
        assert said(streamed(sdk, ask, **body, speculation="off")) == said(whole)


@pytest.mark.parametrize("ask", ASKS)
def test_some_call_is_made_where_one_is_required(sdk: openai.OpenAI, ask: str) -> None:
    body = {"tools": [WEATHER, COUNT], "tool_choice": "required", "temperature": 1, "seed": 5, "speculation": "always"}
    check_calls(asked(sdk, ask, **body, parallel_tool_calls=False), "get_weather", "count")
    check_calls(asked(sdk, ask, **body, response_format={"type": "json_object"}), "get_weather", "count")
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "count"}}]}
    check_calls(asked(sdk, ask, **body | {"tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}), "count")


@pytest.mark.parametrize("ask", ASKS)
def test_a_typed_answer_is_read_by_the_sdk(sdk: openai.OpenAI, ask: str) -> None:
    for seed in range(3):
        answer = sdk.chat.completions.parse(
            model="laguna-tiny",
            messages=[{"role": "user", "content": ask}],
            response_format=Verdict,
            temperature=seed / 2,
            seed=seed,
            max_tokens=80,
            extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        )
        assert answer.choices[0].finish_reason == "stop"
        assert isinstance(answer.choices[0].message.parsed, Verdict)


def test_thinking_stays_free_and_the_answer_after_it_does_not(sdk: openai.OpenAI) -> None:
    answer = asked(
        sdk,
        ASKS[0],
        tools=[WEATHER, COUNT],
        tool_choice={"type": "function", "function": {"name": "count"}},
        temperature=0,
        chat_template_kwargs={"enable_thinking": True},
        max_tokens=120,
    )
    assert (answer.choices[0].message.model_extra or {})["reasoning_content"]
    assert answer.choices[0].finish_reason == "tool_calls"
    check_calls(answer, "count")


@pytest.mark.parametrize("ask", ASKS)
def test_a_json_answer_after_thinking_begins_at_its_brace_streamed_and_not(sdk: openai.OpenAI, ask: str) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "v", "schema": Verdict.model_json_schema()}}
    for seed in range(3):
        drawn = {"temperature": seed / 2, "seed": seed, "max_tokens": 200, "thinking_token_budget": 12}
        body: dict[str, Any] = {"response_format": shape, "chat_template_kwargs": {"enable_thinking": True}, **drawn}
        whole, stream = asked(sdk, ask, **body, logprobs=True), streamed(sdk, ask, **body, speculation="off")
        (choice,) = whole.choices
        assert (choice.message.model_extra or {})["reasoning_content"]
        assert (choice.message.content or "").startswith("{")
        Verdict.model_validate_json(choice.message.content or "")
        assert choice.logprobs is not None
        assert "".join(token.token for token in choice.logprobs.content or ()) == choice.message.content
        assert said(stream) == said(whole)


def test_schemas_hold_beside_stops_biases_penalties_and_log_probabilities(sdk: openai.OpenAI) -> None:
    schema = Verdict.model_json_schema()
    body = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "v", "schema": schema, "strict": True}},
        "temperature": 1,
        "seed": 9,
        "logprobs": True,
        "top_logprobs": 2,
        "frequency_penalty": 1.5,
        "logit_bias": {"24": 100, "2": 100},
        "n": 3,
    }
    whole = asked(sdk, ASKS[2], **body, stop=["}}}"])
    for choice in whole.choices:
        assert choice.message.content is not None
        assert choice.logprobs is not None
        Verdict.model_validate_json(choice.message.content)
        assert "".join(token.token for token in choice.logprobs.content or ()) == choice.message.content
    assert said(streamed(sdk, ASKS[2], **body, stop=["}}}"])) == said(whole)
    cut = asked(sdk, ASKS[2], **body, stop=['"score"']).choices[0].message.content
    assert cut is not None
    assert (whole.choices[0].message.content or "").startswith(cut)


def test_a_strict_tool_leaves_the_rest_of_the_answer_alone(sdk: openai.OpenAI) -> None:
    strict = {"type": "function", "function": WEATHER["function"] | {"strict": True}}
    free = asked(sdk, ASKS[0], tools=[WEATHER], temperature=0)
    held = asked(sdk, ASKS[0], tools=[strict], temperature=0)
    assert said(held) == said(free)
    assert held.choices[0].finish_reason == "tool_calls"
