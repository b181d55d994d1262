"""The anthropic SDK over a real socket, as its users use it."""

import json
from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from tests.server.messages.wire import sdk
from tests.server.script import ScriptPair, forever, ids_of, says
from tests.server.stand import Stand, stand

MODEL = "claude-haiku-4-5"
WEATHER: ToolParam = {
    "name": "get_weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
HI: list[MessageParam] = [{"role": "user", "content": "What is the weather in Oslo?"}]


def forecaster(prompt: str) -> Iterator[tuple[int, ...]]:
    """Asks for the weather, and reads it out once it is in the prompt."""
    called = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
    text = "Look.</think>" + ("It is 7 degrees." if '{"temperature": 7}' in prompt else called)
    return (ids_of(text)[start : start + 5] for start in range(0, len(ids_of(text)), 5))


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(forecaster, default_chat_template_kwargs={"enable_thinking": True})) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Stand) -> Iterator[anthropic.Anthropic]:
    with sdk(served.port) as client:
        yield client


def said(message: Message) -> list[object]:
    """Everything but the ids."""
    return [block.to_dict() | {"id": None} for block in message.content]


def test_a_tool_is_used_and_its_result_read_over_two_turns(served: Stand, client: anthropic.Anthropic) -> None:
    first = client.messages.create(model=MODEL, max_tokens=200, messages=HI, tools=[WEATHER])
    assert (first.type, first.role, first.stop_reason, first.stop_sequence) == (
        "message",
        "assistant",
        "tool_use",
        None,
    )
    assert first.id.startswith("msg_")
    thought, call = first.content
    assert thought.type == "thinking"
    assert (thought.thinking, bool(thought.signature)) == ("Look.", True)
    assert call.type == "tool_use"
    assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
    assert call.id.startswith("toolu_")
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 7}'}],
    }
    second = client.messages.create(
        model=MODEL,
        max_tokens=200,
        messages=[*HI, {"role": "assistant", "content": first.content}, result],
        tools=[WEATHER],
    )
    assert second.stop_reason == "end_turn"
    assert [block.text for block in second.content if block.type == "text"] == ["It is 7 degrees."]
    assert "<assistant>Look.<tool_call>get_weather" in served.pair.prompts[-1]


def test_the_streaming_helper_adds_up_to_the_plain_answer(client: anthropic.Anthropic) -> None:
    plain = client.messages.create(model=MODEL, max_tokens=200, messages=HI, tools=[WEATHER])
    with client.messages.stream(model=MODEL, max_tokens=200, messages=HI, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert said(final) == said(plain)
    assert final.stop_reason == plain.stop_reason == "tool_use"
    assert final.usage.to_dict() == plain.usage.to_dict()
    assert {"thinking", "signature", "input_json", "message_stop"} <= set(kinds)
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2


def test_the_beta_client_runs_a_tool_by_itself(client: anthropic.Anthropic) -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Tells the weather."""
        return json.dumps({"temperature": 7}) if city == "Oslo" else "unknown"

    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=200, messages=[{"role": "user", "content": "Weather?"}], tools=[get_weather]
    )
    assert [block.text for block in runner.until_done().content if block.type == "text"] == ["It is 7 degrees."]


def test_a_count_is_what_the_answer_says_its_prompt_had(client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(model=MODEL, messages=HI, tools=[WEATHER], system="Be brief.")
    answered = client.messages.create(
        model=MODEL, max_tokens=200, messages=HI, tools=[WEATHER], system=[{"type": "text", "text": "Be brief."}]
    )
    assert counted.to_dict() == {"input_tokens": answered.usage.input_tokens}
    assert answered.usage.cache_read_input_tokens == 0


def test_errors_arrive_as_the_exceptions_of_the_sdk() -> None:
    with stand(ScriptPair(says("x"), context_length=40)) as served, sdk(served.port) as client:
        long: list[MessageParam] = [{"role": "user", "content": "x" * 100}]
        for streamed in (True, False):
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 108 tokens > 40 maximum") as told:
                client.messages.create(model=MODEL, max_tokens=5, messages=long, stream=streamed)
            assert told.value.type == "invalid_request_error"
            assert (told.value.request_id or "").startswith("req_")
        with pytest.raises(anthropic.BadRequestError, match=r"`max_tokens` exceed context limit: 36 \+ 50 > 40,"):
            client.messages.create(model=MODEL, max_tokens=50, messages=HI)
        with pytest.raises(anthropic.BadRequestError, match="'container' is not supported"):
            client.messages.create(model=MODEL, max_tokens=1, messages=HI, container="c")
        with pytest.raises(anthropic.NotFoundError) as missing:
            client.post("/v1/messages/batches", body={}, cast_to=object)
        assert missing.value.type == "not_found_error"


def test_a_failure_in_mid_stream_is_raised() -> None:
    with stand(ScriptPair(lambda _: [ids_of("ab"), RuntimeError("no")])) as served, sdk(served.port) as client:
        with (
            pytest.raises(anthropic.APIStatusError, match="RuntimeError") as told,
            client.messages.stream(model=MODEL, max_tokens=20, messages=HI) as stream,
        ):
            list(stream)
        assert told.value.type == "api_error"


def test_leaving_a_stream_early_frees_the_slot() -> None:
    pair = ScriptPair(forever, pace=0.005, context_length=100_000)
    with stand(pair) as served, sdk(served.port) as client:
        with client.messages.create(model=MODEL, max_tokens=90_000, messages=HI, stream=True) as stream:
            for number, _ in enumerate(stream):
                if number == 4:
                    break
        served.wait_until(lambda: pair.sessions == 0)
