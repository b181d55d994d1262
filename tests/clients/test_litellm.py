"""LiteLLM as a client of an OpenAI-compatible server, and of an Anthropic-compatible one."""

from functools import partial
from typing import Any

import litellm
import pytest
from litellm import exceptions

from tests.clients.ask import ASK, HELLO, LONG, MODEL, RESULT, WEATHER, Verdict, reads_result

Wishes = dict[str, Any]


@pytest.fixture(params=["openai", "anthropic"])
def wishes(base: str, request: pytest.FixtureRequest) -> Wishes:
    # Its Anthropic client adds `/v1/messages` itself.
    address = base if request.param == "openai" else base.removesuffix("/v1")
    named = {"model": f"{request.param}/{MODEL}", "api_base": address, "api_key": "none"}
    return named | {"temperature": 0, "max_tokens": 200, "num_retries": 0}


def asked(wishes: Wishes, text: str, **more: object) -> Any:  # noqa: ANN401
    return litellm.completion(messages=[{"role": "user", "content": text}], **wishes | more)


def test_a_stream_adds_up_to_the_answer(wishes: Wishes) -> None:
    whole = asked(wishes, HELLO).choices[0].message.content
    chunks = list(asked(wishes, HELLO, stream=True))
    assert whole
    assert len(chunks) > 2
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_is_called_and_its_result_read(wishes: Wishes, streamed: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": ASK}]
    complete = partial(litellm.completion, tools=[WEATHER], stream=streamed, **wishes)
    answer: Any = complete(messages=messages)
    built: Any = litellm.stream_chunk_builder(list(answer), messages=messages) if streamed else answer
    assert built.choices[0].finish_reason == "tool_calls"
    (call,) = built.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments.replace(" ", "")) == ("get_weather", '{"city":"Oslo"}')
    told = [built.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    second: Any = litellm.completion(messages=[*messages, *told], tools=[WEATHER], **wishes)
    assert reads_result(second.choices[0].message.content)


def test_an_answer_is_typed(wishes: Wishes) -> None:
    answer = asked(wishes, HELLO, response_format=Verdict)
    assert Verdict.model_validate_json(answer.choices[0].message.content)


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_refused_is_raised_by_its_kind(wishes: Wishes, stream: bool) -> None:
    with pytest.raises(exceptions.ContextWindowExceededError):
        list(asked(wishes, LONG, stream=stream))
    with pytest.raises(exceptions.BadRequestError, match="temperature") as wrong:
        list(asked(wishes, HELLO, stream=stream, temperature=3))
    assert not isinstance(wrong.value, exceptions.ContextWindowExceededError)


@pytest.mark.parametrize("stream", [False, True])
def test_an_overflow_is_one_over_its_other_apis_too(base: str, stream: bool) -> None:
    common: Wishes = {"api_base": base, "api_key": "none", "num_retries": 0, "stream": stream}
    with pytest.raises(exceptions.ContextWindowExceededError):
        list(litellm.responses(model=f"openai/{MODEL}", input=LONG, **common))
    with pytest.raises(exceptions.ContextWindowExceededError):
        list(litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt=LONG, **common))
