"""pydantic-ai over chat completions and over responses."""

from collections.abc import AsyncIterator

import openai
import pytest
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.clients.ask import ASK, HELLO, LONG, MODEL, RESULT, Verdict, reads_result

Model = OpenAIChatModel | OpenAIResponsesModel
COLD = ModelSettings(temperature=0, max_tokens=200)


@pytest.fixture(params=[OpenAIChatModel, OpenAIResponsesModel], ids=["chat", "responses"])
async def model(base: str, request: pytest.FixtureRequest) -> AsyncIterator[Model]:
    async with openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0) as client:
        yield request.param(MODEL, provider=OpenAIProvider(openai_client=client))


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    assert city == "Oslo"
    return RESULT


async def test_a_stream_adds_up_to_the_answer(model: Model) -> None:
    agent = Agent(model, model_settings=COLD)
    whole = (await agent.run(HELLO)).output
    async with agent.run_stream(HELLO) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert whole
    assert "".join(pieces) == whole


async def test_a_tool_is_called_and_its_result_read(model: Model) -> None:
    agent = Agent(model, tools=[get_weather], model_settings=COLD)
    ran = await agent.run(ASK)
    assert reads_result(ran.output)
    assert ran.usage.requests == 2
    async with agent.run_stream(ASK) as stream:
        assert await stream.get_output() == ran.output


@pytest.mark.parametrize("how", [NativeOutput, ToolOutput])
async def test_an_answer_is_typed(model: Model, how: type[NativeOutput | ToolOutput]) -> None:
    ran = await Agent(model, output_type=how(Verdict), model_settings=COLD).run(HELLO)
    assert isinstance(ran.output, Verdict)


async def test_what_is_refused_is_raised_by_its_kind(model: Model) -> None:
    with pytest.raises(ModelHTTPError) as overflow:
        await Agent(model, model_settings=COLD).run(LONG)
    assert type(overflow.value).__name__ == "ModelContextWindowExceededError"
    with pytest.raises(ModelHTTPError, match="temperature") as wrong:
        await Agent(model, model_settings=ModelSettings(temperature=3)).run(HELLO)
    assert wrong.value.status_code == 400
