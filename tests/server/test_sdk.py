"""The openai SDK over a real socket, as its users use it."""

import json
from collections.abc import Iterator
from typing import cast

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.server.script import ScriptPair, forever, ids_of, says
from tests.server.stand import Stand, stand

MODEL = "Laguna-Script"
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the weather in Oslo?"}]


def forecaster(prompt: str) -> Iterator[tuple[int, ...]]:
    """Asks for the weather, and reads it out once it is in the prompt."""
    seen = '{"temperature": 7}' in prompt
    called = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
    text = "Look.</think>" + ("It is 7 degrees." if seen else called)
    return (ids_of(text)[start : start + 5] for start in range(0, len(ids_of(text)), 5))


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(forecaster, default_chat_template_kwargs={"enable_thinking": True})) as running:
        yield running


def test_a_tool_call_and_its_result_over_two_turns(served: Stand) -> None:
    first = served.sdk.chat.completions.create(model=MODEL, messages=HI, tools=[WEATHER])
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    result: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 7}'}
    spoken = cast("ChatCompletionMessageParam", choice.message.model_dump(exclude_none=True))
    second = served.sdk.chat.completions.create(model=MODEL, messages=[*HI, spoken, result], tools=[WEATHER])
    assert second.choices[0].finish_reason == "stop"
    assert second.choices[0].message.content == "It is 7 degrees."
    assert second.choices[0].message.tool_calls is None
    assert "Look." in served.pair.prompts[-1]


def test_the_streaming_helper_adds_up_to_the_plain_answer(served: Stand) -> None:
    plain = served.sdk.chat.completions.create(model=MODEL, messages=HI, tools=[WEATHER]).choices[0]
    with served.sdk.chat.completions.stream(
        model=MODEL, messages=HI, tools=[WEATHER], stream_options={"include_usage": True}
    ) as stream:
        names = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in names
    assert final.choices[0].finish_reason == plain.finish_reason == "tool_calls"
    assert final.choices[0].message.tool_calls is not None
    assert plain.message.tool_calls is not None
    assert [call.function.arguments for call in final.choices[0].message.tool_calls] == ['{"city": "Oslo"}']
    assert plain.message.role == final.choices[0].message.role == "assistant"
    assert final.usage is not None
    assert final.usage.total_tokens == final.usage.prompt_tokens + final.usage.completion_tokens
    assert (final.choices[0].message.model_extra or {})["reasoning_content"] == "Look."


def test_leaving_a_stream_early_frees_the_slot() -> None:
    with stand(ScriptPair(forever, pace=0.005), context_length=100_000) as served:
        with served.sdk.chat.completions.create(model=MODEL, messages=HI, stream=True) as stream:
            for number, _ in enumerate(stream):
                if number == 3:
                    break
        served.wait_until(lambda: served.pair.sessions == 0)


def test_errors_arrive_as_the_exceptions_of_the_sdk() -> None:
    with stand(ScriptPair(says("x"), context_length=40)) as served:
        create = served.sdk.chat.completions.create
        with pytest.raises(openai.NotFoundError) as missing:
            create(model="other", messages=HI)
        assert missing.value.code == "model_not_found"
        long: list[ChatCompletionMessageParam] = [{"role": "user", "content": "x" * 100}]
        for streamed in (True, False):
            with pytest.raises(openai.BadRequestError) as overflow:
                create(model=MODEL, messages=long, stream=streamed)
            assert (overflow.value.code, overflow.value.param) == ("context_length_exceeded", "messages")
        with pytest.raises(openai.BadRequestError) as unsupported:
            create(model=MODEL, messages=HI, web_search_options={})
        assert unsupported.value.param == "web_search_options"


def test_answers_and_errors_have_request_ids(served: Stand) -> None:
    answer = served.sdk.chat.completions.create(model=MODEL, messages=HI)
    with pytest.raises(openai.NotFoundError) as missing:
        served.sdk.chat.completions.create(model="other", messages=HI)
    assert answer._request_id
    assert missing.value.request_id
    assert answer._request_id != missing.value.request_id


def test_a_failure_in_mid_stream_is_raised() -> None:
    with stand(ScriptPair(lambda _: [ids_of("ab"), RuntimeError("no")])) as served:
        stream = served.sdk.chat.completions.create(model=MODEL, messages=HI, stream=True)
        with pytest.raises(openai.APIError, match="RuntimeError"):
            list(stream)


def test_our_own_fields_pass_through_the_sdk(served: Stand) -> None:
    answer = served.sdk.chat.completions.create(
        model=MODEL, messages=HI, extra_body={"speculation": "off", "top_k": 5, "chat_template_kwargs": {"x": 1}}
    )
    assert served.pair.requests[-1].speculation == "off"
    assert (answer.model_extra or {})["laguna"]["rounds"] > 0


def test_the_model_list_knows_all_names_of_the_model() -> None:
    with stand(ScriptPair(says("x")), model="/models/Laguna-Folder/") as served:
        (listed,) = served.sdk.models.list()
        assert listed.id == "poolside/Laguna-Script"
        for name in (listed.id, "Laguna-Script", "/models/Laguna-Folder", "Laguna-Folder"):
            assert served.sdk.models.retrieve(name).id == listed.id
            assert served.sdk.chat.completions.create(model=name, messages=HI).model == listed.id
        assert (listed.model_extra or {})["context_length"] == 4096
        assert served.http.get("/models").json() == served.http.get("/v1/models").json()
        assert served.http.post("/chat/completions", json={"messages": HI}).status_code == 200


def test_the_model_list_tells_how_the_model_answers_where_nothing_is_said() -> None:
    pair = ScriptPair(says("x"), default_chat_template_kwargs={"enable_thinking": True})
    with stand(pair, speculation="off") as served:
        meta = served.http.get("/v1/models").json()["data"][0]["meta"]
        assert served.http.get("/health").json()["speculation"] == meta["speculation"]
    assert (meta["thinking"], meta["speculation"]) == (True, {"mode": "off", "off": "turned off by the settings"})
    pair = ScriptPair(says("x"), default_chat_template_kwargs={"refuse": True})
    with stand(pair) as served:
        assert served.http.get("/v1/models").json()["data"][0]["meta"]["thinking"] is None


def test_the_model_list_tells_what_drafts_and_what_is_doubtful_about_the_pair() -> None:
    pair = ScriptPair(says("x"), speculator_id="poolside/Laguna-Script-DFlash-INT4", warnings=("Trained for INT4.",))
    with stand(pair) as served:
        card = served.http.get("/v1/models").json()["data"][0]
    assert {"tools", "temperature", "speculation", "response_format"} <= set(card["supported_parameters"])
    assert "messages" not in card["supported_parameters"]
    meta = card["meta"]
    assert meta == {
        "n_ctx": 4096,
        "thinking": False,
        "speculation": {"mode": "auto", "off": None},
        "speculator": "poolside/Laguna-Script-DFlash-INT4",
        "speculation_off": None,
        "warnings": ["Trained for INT4."],
    }
