"""Every answer and every event is what the SDKs' own types demand, strictly, with no member missing."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from tests.server.dialects.saying import DIALECTS, Wish
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand
from tests.server.wire import events

TURNS = {
    "text": "Hello, wörld 😀!",
    "thought and calls": "Hm.</think>Look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>"
    "</tool_call><tool_call>ping</tool_call>",
    "cut call": "Hm.</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>" + "Oslo " * 200,
    "nothing": "",
}
WHOLE: Mapping[str, type[BaseModel]] = {"chat": ChatCompletion, "responses": Response, "messages": Message}
EVENT: Mapping[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(ChatCompletionChunk),
    "responses": TypeAdapter(ResponseStreamEvent),
    "messages": TypeAdapter(RawMessageStreamEvent),
}
SCORED = {"chat": {"logprobs": True, "top_logprobs": 2}, "responses": {"include": ["message.output_text.logprobs"]}}


@pytest.fixture(scope="module", params=TURNS.values(), ids=list(TURNS))
def served(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with stand(ScriptPair(says(request.param, block=5))) as running:
        yield running


def data_of(text: str) -> list[str]:
    """The data of every event, named or not."""
    found = [event.partition("data: ")[2] if event.startswith("event: ") else event for event in events(text)]
    return [each for each in found if each != "[DONE]"]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("scored", [False, True])
def test_whole_and_streamed_answers_are_of_the_types_of_the_sdks(served: Stand, name: str, scored: bool) -> None:
    dialect, wish = DIALECTS[name], Wish(thinks=True, most=300)
    body = dialect.common | dialect.ask(wish) | (SCORED.get(name, {}) if scored else {})
    whole = served.http.post(dialect.path, json=body)
    WHOLE[name].model_validate_json(whole.text, strict=True)
    streamed = data_of(served.http.post(dialect.path, json=body | {"stream": True}).text)
    assert streamed
    for event in streamed:
        EVENT[name].validate_json(event, strict=True)


def test_a_completion_and_its_chunks_are(served: Stand) -> None:
    # The type has no place for the null that goes with a prompt's first token where both are asked for.
    for more in ({"echo": True}, {"logprobs": 2, "n": 2}):
        body = {"prompt": "hi", "max_tokens": 40} | more
        Completion.model_validate_json(served.http.post("/v1/completions", json=body).text, strict=True)
        for chunk in data_of(served.http.post("/v1/completions", json=body | {"stream": True}).text):
            # The type knows whole answers alone, whose choices have a reason.
            told = json.loads(chunk)
            for choice in told["choices"]:
                assert {"index", "text", "logprobs", "finish_reason"} == choice.keys()
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            Completion.model_validate_json(json.dumps(told), strict=True)


def test_members_that_may_be_null_are_there_all_the_same(served: Stand) -> None:
    body = Wish(thinks=True, most=300).chat() | {"stream_options": {"include_usage": True}}
    whole = served.http.post("/v1/chat/completions", json=body | {"stream_options": None}).json()
    assert {"id", "object", "created", "model", "choices", "usage"} <= whole.keys()
    (choice,) = whole["choices"]
    assert {"index", "message", "logprobs", "finish_reason"} <= choice.keys()
    assert {"role", "content", "refusal"} <= choice["message"].keys()
    chunks = [
        json.loads(each)
        for each in data_of(served.http.post("/v1/chat/completions", json=body | {"stream": True}).text)
    ]
    for chunk in chunks:
        assert {"id", "object", "created", "model", "choices", "usage"} <= chunk.keys()
        assert all({"index", "delta", "logprobs", "finish_reason"} <= each.keys() for each in chunk["choices"])
    response = served.http.post("/v1/responses", json=Wish(thinks=True).responses()).json()
    assert {"error", "incomplete_details", "instructions", "metadata", "usage", "text", "tools"} <= response.keys()
    assert {"input_tokens_details", "output_tokens_details"} <= response["usage"].keys()
    message = served.http.post("/v1/messages", json=Wish(thinks=True).messages()).json()
    assert {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"} <= message.keys()
