"""A prompt beyond the embedded pair's context is an exception by name in each dialect of both SDKs, streamed or not."""

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.server.embedded import embedded
from tests.server.messages.wire import sdk as anthropics

CONTEXT = 200
LONG = "word " * CONTEXT
MODEL = "laguna-tiny"
USER: list[Any] = [{"role": "user", "content": LONG}]
FITS: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with embedded(context_length=CONTEXT) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def claude(client: openai.OpenAI) -> Iterator[anthropic.Anthropic]:
    assert client.base_url.port is not None
    with anthropics(client.base_url.port) as sdk:
        yield sdk


ASKS: dict[str, Callable[..., Any]] = {
    "messages": lambda sdk, stream: sdk.chat.completions.create(model=MODEL, messages=USER, stream=stream),
    "input": lambda sdk, stream: sdk.responses.create(model=MODEL, input=LONG, stream=stream),
    "prompt": lambda sdk, stream: sdk.completions.create(model=MODEL, prompt=LONG, stream=stream),
}
"""By the parameter that the prompt is in."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("param", ASKS)
def test_openais_sdk_raises_a_bad_request_with_the_code_and_both_numbers(
    client: openai.OpenAI, param: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as told:
        ASKS[param](client, stream)
    assert (told.value.code, told.value.param) == ("context_length_exceeded", param)
    assert told.value.type == "invalid_request_error"
    # Some look for the code in the text alone.
    assert "context_length_exceeded" in str(told.value)
    assert f"maximum context length is {CONTEXT} tokens. However, your messages resulted in " in told.value.message


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_sdk_raises_a_bad_request_in_the_words_of_its_own_server(
    claude: anthropic.Anthropic, stream: bool
) -> None:
    create = claude.messages.create
    tokens = claude.messages.count_tokens(model="claude-haiku-4-5", messages=USER).input_tokens
    with pytest.raises(anthropic.BadRequestError, match=rf"prompt is too long: {tokens} tokens > {CONTEXT} maximum"):
        create(model="claude-haiku-4-5", max_tokens=5, messages=USER, stream=stream)
    few = claude.messages.count_tokens(model="claude-haiku-4-5", messages=FITS).input_tokens
    sums = rf"`max_tokens` exceed context limit: {few} \+ {CONTEXT} > {CONTEXT},"
    with pytest.raises(anthropic.BadRequestError, match=sums) as told:
        create(model="claude-haiku-4-5", max_tokens=CONTEXT, messages=FITS, stream=stream)
    assert told.value.type == "invalid_request_error"
    assert create(model="claude-haiku-4-5", max_tokens=CONTEXT - few, messages=FITS).usage.output_tokens
