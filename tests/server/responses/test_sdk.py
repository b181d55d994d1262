"""The openai SDK's `responses` over a real socket, as its users use it."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import FunctionToolParam, Response

from server.api.sealing import opened
from tests.server.script import ScriptPair, forever, ids_of, says
from tests.server.stand import Stand, stand

MODEL = "Laguna-Script"
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
ASK = "What is the weather in Oslo?"
RESULT = '{"temperature": 7}'


def forecaster(prompt: str) -> Iterator[tuple[int, ...]]:
    """Asks for the weather, and reads it out once it is in the prompt."""
    called = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
    text = "Look.</think>" + ("It is 7 degrees." if RESULT in prompt else called)
    return (ids_of(text)[start : start + 5] for start in range(0, len(ids_of(text)), 5))


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(forecaster, default_chat_template_kwargs={"enable_thinking": True})) as running:
        yield running


def said(response: Response) -> list[object]:
    """Everything but the ids, and what the helper adds."""
    helped = {"id": None, "call_id": None, "parsed_arguments": None}
    return [item.to_dict() | helped for item in response.output]


def result(response: Response) -> dict[str, Any]:
    call = response.output[-1]
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
    return {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}


def test_a_tool_is_called_and_its_result_read_with_the_items_sent_back(served: Stand) -> None:
    first = served.sdk.responses.create(model=MODEL, input=ASK, tools=[WEATHER], store=False)
    assert (first.object, first.status, first.error) == ("response", "completed", None)
    thought, call = first.output
    assert thought.type == "reasoning"
    assert [part.text for part in thought.content or ()] == ["Look."]
    again: Any = [{"role": "user", "content": ASK}, thought.to_dict(), call.to_dict(), result(first)]
    second = served.sdk.responses.create(model=MODEL, input=again, tools=[WEATHER], store=False)
    assert second.output_text == "It is 7 degrees."
    assert served.pair.prompts[-1].endswith(
        f'<user>{ASK}\n<assistant>Look.<tool_call>get_weather {{"city": "Oslo"}}\n<tool>{RESULT}\n<assistant><think>'
    ) or ("Look.<tool_call>get_weather" in served.pair.prompts[-1])
    assert second.usage is not None
    assert second.usage.total_tokens == second.usage.input_tokens + second.usage.output_tokens


def test_a_response_goes_on_from_the_one_before(served: Stand) -> None:
    first = served.sdk.responses.create(model=MODEL, input=ASK, tools=[WEATHER], instructions="Be brief.")
    known: Any = [result(first)]
    second = served.sdk.responses.create(
        model=MODEL, input=known, tools=[WEATHER], previous_response_id=first.id, instructions="Be long."
    )
    assert second.output_text == "It is 7 degrees."
    assert second.previous_response_id == first.id
    prompt = served.pair.prompts[-1]
    assert f"<user>{ASK}\n<assistant>Look.<tool_call>get_weather" in prompt
    # Instructions are those of the request alone.
    assert "Be long." in prompt
    assert "Be brief." not in prompt
    third = served.sdk.responses.create(model=MODEL, input="And now?", previous_response_id=second.id)
    assert third.output_text == "It is 7 degrees."
    assert f"<tool>{RESULT}\n<assistant>Look.It is 7 degrees.\n<user>And now?" in served.pair.prompts[-1]


def test_items_that_are_kept_are_sent_back_by_their_ids(served: Stand) -> None:
    first = served.sdk.responses.create(model=MODEL, input=ASK, tools=[WEATHER])
    named: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
    items: Any = [{"role": "user", "content": ASK}, *named, result(first)]
    assert served.sdk.responses.create(model=MODEL, input=items, tools=[WEATHER]).output_text == "It is 7 degrees."
    assert "<assistant>Look.<tool_call>get_weather" in served.pair.prompts[-1]


def test_sealed_thoughts_come_back_to_the_model(served: Stand) -> None:
    first = served.sdk.responses.create(
        model=MODEL, input=ASK, tools=[WEATHER], store=False, include=["reasoning.encrypted_content"]
    )
    thought, call = first.output
    assert thought.type == "reasoning"
    sealed: Any = {"type": "reasoning", "summary": [], "encrypted_content": thought.encrypted_content}
    items: Any = [{"role": "user", "content": ASK}, sealed, call.to_dict(), result(first)]
    served.sdk.responses.create(model=MODEL, input=items, tools=[WEATHER])
    assert "<assistant>Look.<tool_call>get_weather" in served.pair.prompts[-1]


def test_the_streaming_helper_adds_up_to_the_plain_answer(served: Stand) -> None:
    plain = served.sdk.responses.create(model=MODEL, input=ASK, tools=[WEATHER])
    with served.sdk.responses.stream(model=MODEL, input=ASK, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert said(final) == said(plain)
    assert final.usage == plain.usage
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2


def test_a_response_is_read_listed_and_deleted(served: Stand) -> None:
    made = served.sdk.responses.create(
        model=MODEL, input=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], metadata={"k": "v"}
    )
    assert served.sdk.responses.retrieve(made.id).to_dict() == made.to_dict()
    assert made.metadata == {"k": "v"}
    listed = served.sdk.responses.input_items.list(made.id, order="asc", limit=1)
    texts = [item.to_dict()["content"] for item in listed]
    assert texts == [[{"type": "input_text", "text": "a"}], [{"type": "input_text", "text": "b"}]]
    latest = served.sdk.responses.input_items.list(made.id)
    assert [item.to_dict()["content"] for item in latest] == texts[::-1]
    served.sdk.responses.delete(made.id)
    for gone in (served.sdk.responses.retrieve, served.sdk.responses.delete, served.sdk.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="not found"):
            gone(made.id)
    with pytest.raises(openai.BadRequestError) as told:
        served.sdk.responses.create(model=MODEL, input="x", previous_response_id=made.id)
    assert (told.value.code, told.value.param) == ("previous_response_not_found", "previous_response_id")


def test_what_is_not_to_be_stored_is_not_and_its_thoughts_go_along_sealed(served: Stand) -> None:
    made = served.sdk.responses.create(model=MODEL, input="hi", store=False)
    assert made.to_dict()["store"] is False
    with pytest.raises(openai.NotFoundError):
        served.sdk.responses.retrieve(made.id)
    stored = served.sdk.responses.create(model=MODEL, input="hi")
    assert stored.output[0].to_dict()["encrypted_content"] is None
    assert opened(str(made.output[0].to_dict()["encrypted_content"])) == "Look."


def test_a_server_that_keeps_nothing_says_so() -> None:
    with stand(ScriptPair(says("x")), responses_kept=0) as served:
        made = served.sdk.responses.create(model=MODEL, input="hi", store=True)
        assert made.to_dict()["store"] is False
        with pytest.raises(openai.NotFoundError):
            served.sdk.responses.retrieve(made.id)


def test_a_count_is_what_the_answer_says_its_input_had(served: Stand) -> None:
    first = served.sdk.responses.create(model=MODEL, input=ASK, tools=[WEATHER], instructions="Be brief.")
    counted = served.sdk.responses.input_tokens.count(model=MODEL, input=ASK, tools=[WEATHER], instructions="Be brief.")
    assert first.usage is not None
    assert counted.to_dict() == {"object": "response.input_tokens", "input_tokens": first.usage.input_tokens}
    known: Any = [result(first)]
    on = served.sdk.responses.input_tokens.count(model=MODEL, input=known, previous_response_id=first.id)
    assert on.input_tokens > counted.input_tokens
    with pytest.raises(openai.NotFoundError):
        served.sdk.responses.input_tokens.count(model="gpt-5", input=ASK)


def test_a_stream_is_cancelled_by_another_request() -> None:
    pair = ScriptPair(forever, pace=0.005, context_length=100_000)
    with stand(pair) as served:
        stream = served.sdk.responses.create(model=MODEL, input="hi", stream=True)
        first, *_ = [next(stream), next(stream), next(stream), next(stream)]
        assert first.type == "response.created"
        assert served.sdk.responses.retrieve(first.response.id).status == "in_progress"
        assert served.sdk.responses.cancel(first.response.id).status == "cancelled"
        *_, last = stream
        assert last.type == "response.failed"
        assert last.response.status == "cancelled"
        served.wait_until(lambda: pair.sessions == 0)
        assert served.sdk.responses.cancel(first.response.id).status == "cancelled"
        done = served.sdk.responses.create(model=MODEL, input="hi", max_output_tokens=3)
        with pytest.raises(openai.BadRequestError, match="Cannot cancel a response that is incomplete"):
            served.sdk.responses.cancel(done.id)


def test_errors_arrive_as_the_exceptions_of_the_sdk() -> None:
    with stand(ScriptPair(says("x"), context_length=40)) as served:
        for streamed in (True, False):
            with pytest.raises(openai.BadRequestError, match="maximum context length is 40 tokens") as told:
                served.sdk.responses.create(model=MODEL, input="x" * 100, stream=streamed)
            assert (told.value.code, told.value.param) == ("context_length_exceeded", "input")
        with pytest.raises(openai.NotFoundError) as missing:
            served.sdk.responses.create(model="gpt-5", input="hi")
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="'background' is not supported"):
            served.sdk.responses.create(model=MODEL, input="hi", background=True)


def test_the_latest_responses_are_kept_and_the_rest_forgotten() -> None:
    with stand(ScriptPair(says("x")), responses_kept=2) as served:
        made = [served.sdk.responses.create(model=MODEL, input="hi").id for _ in range(3)]
        with pytest.raises(openai.NotFoundError):
            served.sdk.responses.retrieve(made[0])
        # What was forgotten is part of what went on from it.
        on = served.sdk.responses.create(model=MODEL, input="on", previous_response_id=made[1]).id
        served.sdk.responses.create(model=MODEL, input="other")
        further = served.sdk.responses.create(model=MODEL, input="further", previous_response_id=on)
        assert further.status == "completed"
        assert "<user>hi\n<assistant>x\n<user>on\n<assistant>x\n<user>further" in served.pair.prompts[-1]
