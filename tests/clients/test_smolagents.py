"""smolagents: content in parts everywhere, and a tool that is always required."""

import json

import openai
import pytest
from smolagents import (
    ActionStep,
    ChatMessage,
    MessageRole,
    OpenAIModel,
    ToolCallingAgent,
    agglomerate_stream_deltas,
    tool,
)

from tests.clients.ask import ASK, HELLO, LONG, MODEL, RESULT, Verdict


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city.

    Args:
        city: Which one.
    """
    assert city
    return RESULT


def model(base: str, **wishes: object) -> OpenAIModel:
    common = {"temperature": 0, "max_tokens": 200, "client_kwargs": {"max_retries": 0}, "retry": False}
    return OpenAIModel(MODEL, api_base=base, api_key="none", **common | wishes)


def said(text: str) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": text}])]


def test_a_stream_adds_up_to_the_answer_and_counts_tokens_once(base: str) -> None:
    whole = model(base).generate(said(HELLO))
    pieces = list(model(base).generate_stream(said(HELLO)))
    joined = agglomerate_stream_deltas(pieces)
    assert whole.content
    assert (joined.content, joined.token_usage) == (whole.content, whole.token_usage)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_calls_a_tool_reads_its_result_and_ends(base: str, streamed: bool) -> None:
    single = model(base, parallel_tool_calls=False)
    agent = ToolCallingAgent([get_weather], single, max_steps=3, stream_outputs=streamed, verbosity_level=0)
    assert agent.run(ASK) is not None
    first, *others = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    assert first.tool_calls is not None
    assert {call.name for call in first.tool_calls} <= {"get_weather", "final_answer"}
    called = [step.observations or "" for step in (first, *others) if "get_weather" in str(step.tool_calls)]
    assert all("cloudy" in told for told in called)
    assert all(step.token_usage is not None and step.token_usage.output_tokens > 0 for step in (first, *others))


def test_a_tool_is_called(base: str) -> None:
    answer = model(base, parallel_tool_calls=False).generate(said(ASK), tools_to_call_from=[get_weather])
    assert answer.tool_calls is not None
    (call,) = answer.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(str(call.function.arguments)) == {"city": "Oslo"}


def test_an_answer_is_typed(base: str) -> None:
    schema = {"name": "verdict", "schema": Verdict.model_json_schema(), "strict": True}
    answer = model(base).generate(said(HELLO), response_format={"type": "json_schema", "json_schema": schema})
    assert Verdict.model_validate(json.loads(str(answer.content)))


def test_what_is_refused_is_raised_by_its_kind(base: str) -> None:
    with pytest.raises(openai.BadRequestError) as overflow:
        model(base).generate(said(LONG))
    assert overflow.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as wrong:
        list(model(base, temperature=3).generate_stream(said(HELLO)))
    assert wrong.value.param == "temperature"
