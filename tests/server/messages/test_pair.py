"""The embedded pair through Anthropic's SDK: tools, forced and free, thinking, and the same text as over chat."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import anthropic
import httpx2
import pytest
from anthropic.types import Message, MessageParam, ToolParam
from pydantic import BaseModel

from models.runtime import load_runtime
from server.settings import Settings
from tests.server.messages.wire import folded, sdk
from tests.server.messages.wire import streamed as streamed_frames
from tests.server.stand import running, wait_until

MODEL = "claude-haiku-4-5"
WEATHER: ToolParam = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
    },
}
ASK: list[MessageParam] = [{"role": "user", "content": "What is the weather in Oslo?"}]
HELLO: list[MessageParam] = [{"role": "user", "content": "Hello! Wie heißt du?"}]


class Verdict(BaseModel):
    """What a typed answer is read into."""

    word: Literal["yes", "no", "perhaps"]
    sure: bool


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(partial(load_runtime, None, "auto"), Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        yield port


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[anthropic.Anthropic]:
    with sdk(port) as client:
        yield client


def streamed(client: anthropic.Anthropic, messages: list[MessageParam], **body: object) -> Message:
    extra = {"temperature": 0, "seed": 7} | body
    with client.messages.stream(
        model=MODEL, max_tokens=300, messages=messages, tools=[WEATHER], extra_body=extra
    ) as stream:
        return stream.get_final_message()


def test_a_tool_is_called_and_its_result_read(client: anthropic.Anthropic) -> None:
    first = streamed(client, ASK, speculation="always")
    assert first.stop_reason == "tool_use"
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
    told = {"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 7, "sky": "cloudy"}'}
    spoken: list[Any] = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [told]}]
    second = streamed(client, [*ASK, *spoken])
    assert second.stop_reason == "end_turn"
    answer = "".join(block.text for block in second.content if block.type == "text")
    assert "7" in answer
    assert "cloudy" in answer
    # What was said before is not read again.
    assert (second.usage.cache_read_input_tokens or 0) > 0
    counted = client.messages.count_tokens(model=MODEL, messages=[*ASK, *spoken], tools=[WEATHER])
    assert counted.input_tokens == second.usage.input_tokens + (second.usage.cache_read_input_tokens or 0)


@pytest.mark.parametrize("temperature", [0, 0.9])
@pytest.mark.parametrize("speculation", ["always", "off"])
def test_the_text_is_that_of_a_chat_completion(
    client: anthropic.Anthropic, port: int, temperature: float, speculation: str
) -> None:
    own = {"temperature": temperature, "seed": 11, "speculation": speculation}
    message = streamed(client, ASK, **own)
    function = {"name": WEATHER["name"], "parameters": WEATHER["input_schema"]}
    chat = httpx2.post(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json=own | {"messages": ASK, "max_tokens": 300, "tools": [{"type": "function", "function": function}]},
    ).json()["choices"][0]
    texts = {"thinking": "", "text": ""}
    for block in message.content:
        match block.type:
            case "thinking":
                texts["thinking"] += block.thinking
            case "text":
                texts["text"] += block.text
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    spoken = chat["message"]
    assert texts == {"thinking": spoken.get("reasoning_content", ""), "text": spoken["content"] or ""}
    asked = [call["function"] for call in spoken.get("tool_calls", [])]
    assert calls == [(call["name"], json.loads(call["arguments"])) for call in asked]
    reason = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[chat["finish_reason"]]
    assert message.stop_reason == reason


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}], ids=["any", "tool"])
def test_a_forced_tool_is_used_even_where_nothing_asks_for_it(
    client: anthropic.Anthropic, choice: dict[str, str]
) -> None:
    forced = {"tool_choice": choice | {"disable_parallel_tool_use": True}, "thinking": {"type": "disabled"}}
    message = streamed(client, HELLO, **forced)
    assert [block.type for block in message.content] == ["tool_use"]
    (call,) = message.content
    assert call.type == "tool_use"
    assert call.name == "get_weather"
    assert isinstance(call.input["city"], str)
    assert message.stop_reason == "tool_use"


def test_a_typed_answer_is_read_into_its_class(client: anthropic.Anthropic) -> None:
    for ask in (HELLO, ASK):
        answer = client.messages.parse(
            model=MODEL, max_tokens=100, messages=ask, output_format=Verdict, thinking={"type": "disabled"}
        )
        assert isinstance(answer.parsed_output, Verdict)
        assert answer.stop_reason == "end_turn"
    with client.messages.stream(
        model=MODEL, max_tokens=100, messages=HELLO, output_format=Verdict, thinking={"type": "disabled"}
    ) as stream:
        assert isinstance(stream.get_final_message().parsed_output, Verdict)


def test_a_schema_that_cannot_be_followed_is_refused_by_its_place(client: anthropic.Anthropic) -> None:
    unique: dict[str, object] = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    strict: ToolParam = {
        "name": "f",
        "strict": True,
        "input_schema": {"type": "object", "properties": {"a": unique}, "required": ["a"]},
    }
    with pytest.raises(anthropic.BadRequestError, match=r"'tools\[1\]\.input_schema'.*uniqueItems"):
        client.messages.create(model=MODEL, max_tokens=20, messages=HELLO, tools=[WEATHER, strict])
    with pytest.raises(anthropic.BadRequestError, match=r"'output_config\.format\.schema'.*uniqueItems"):
        client.messages.create(
            model=MODEL,
            max_tokens=20,
            messages=HELLO,
            output_config={"format": {"type": "json_schema", "schema": unique}},
        )


def test_thinking_is_turned_on_bounded_hidden_and_turned_off(client: anthropic.Anthropic) -> None:
    free = streamed(client, ASK, thinking={"type": "adaptive"})
    thought = free.content[0]
    assert thought.type == "thinking"
    bounded = streamed(client, ASK, thinking={"type": "enabled", "budget_tokens": 3})
    assert bounded.usage.output_tokens_details is not None
    assert bounded.usage.output_tokens_details.thinking_tokens == 3
    hidden = streamed(client, ASK, thinking={"type": "adaptive", "display": "omitted"})
    assert hidden.content[0].to_dict().keys() == {"type", "thinking", "signature"}
    assert hidden.content[0].to_dict()["thinking"] == ""
    assert hidden.content[1:][0].type == free.content[1].type
    off = streamed(client, ASK, thinking={"type": "disabled"})
    assert "thinking" not in [block.type for block in off.content]


def test_thoughts_that_were_hidden_come_back_to_the_model(client: anthropic.Anthropic) -> None:
    counts = []
    for display in ("summarized", "omitted"):
        first = streamed(client, ASK, thinking={"type": "adaptive", "display": display})
        (call,) = [block for block in first.content if block.type == "tool_use"]
        told: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "{}"}]}
        spoken: Any = {"role": "assistant", "content": first.content}
        counts.append(client.messages.count_tokens(model=MODEL, messages=[*ASK, spoken, told], tools=[WEATHER]))
    assert counts[0] == counts[1]


def claude_code(ask: str, hash_: str) -> dict[str, Any]:
    """A request as Claude Code 2.1 makes it, with fewer and shorter tools."""
    ephemeral = {"cache_control": {"type": "ephemeral"}}
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 500,
        "stream": True,
        "metadata": {"user_id": '{"device_id":"0","account_uuid":"","session_id":"1"}'},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={hash_};"},
            {"type": "text", "text": "You are an agent."} | ephemeral,
            {"type": "text", "text": "\nYou help with many things."} | ephemeral,
        ],
        "tools": [WEATHER],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": ask} | ephemeral]},
            {"role": "system", "content": "The working folder is /w."},
        ],
    }


def test_claude_codes_requests_go_on_from_each_other_although_their_first_block_changes(port: int) -> None:
    cached = []
    for hash_ in ("00ab1", "f77cd"):
        response = httpx2.post(
            f"http://127.0.0.1:{port}/v1/messages?beta=true",
            json=claude_code("Tell me of the sea, in so many words that nobody said before.", hash_),
            headers={"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219", "x-api-key": "k"},
            timeout=60,
        )
        message = folded(streamed_frames(response))
        assert message["model"] == "claude-opus-4-8"
        usage = message["usage"]
        cached.append(usage["cache_read_input_tokens"] / (usage["cache_read_input_tokens"] + usage["input_tokens"]))
    assert cached[0] < 0.5 < cached[1]
