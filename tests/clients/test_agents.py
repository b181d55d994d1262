"""openai-agents over chat completions and over responses, which is its default."""

from collections.abc import AsyncIterator

import openai
import pytest
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
)
from openai.types.responses import ResponseTextDeltaEvent

from tests.clients.ask import ASK, HELLO, LONG, MODEL, RESULT, Verdict, reads_result

COLD = ModelSettings(temperature=0, max_tokens=200)


@pytest.fixture(params=[OpenAIChatCompletionsModel, OpenAIResponsesModel], ids=["chat", "responses"])
async def model(base: str, request: pytest.FixtureRequest) -> AsyncIterator[Model]:
    async with openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0) as client:
        yield request.param(MODEL, client)


@function_tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    assert city == "Oslo"
    return RESULT


async def test_a_stream_adds_up_to_the_answer(model: Model) -> None:
    agent = Agent("greeter", model=model, model_settings=COLD)
    whole = (await Runner.run(agent, HELLO)).final_output
    streamed = Runner.run_streamed(agent, HELLO)
    pieces = [
        event.data.delta
        async for event in streamed.stream_events()
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
    ]
    assert whole
    assert "".join(pieces) == streamed.final_output == whole


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_is_called_and_its_result_read(model: Model, streamed: bool) -> None:
    agent = Agent("forecaster", model=model, model_settings=COLD, tools=[get_weather])
    if streamed:
        ran = Runner.run_streamed(agent, ASK)
        assert [event async for event in ran.stream_events()]
        assert reads_result(ran.final_output)
    else:
        assert reads_result((await Runner.run(agent, ASK)).final_output)


async def test_an_answer_is_typed(model: Model) -> None:
    agent = Agent("judge", model=model, model_settings=COLD, output_type=Verdict)
    assert isinstance((await Runner.run(agent, HELLO)).final_output, Verdict)


async def test_what_is_refused_is_raised_by_its_kind(model: Model) -> None:
    with pytest.raises(openai.BadRequestError) as overflow:
        await Runner.run(Agent("greeter", model=model, model_settings=COLD), LONG)
    assert overflow.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as wrong:
        await Runner.run(Agent("greeter", model=model, model_settings=ModelSettings(temperature=3)), HELLO)
    assert wrong.value.param == "temperature"
