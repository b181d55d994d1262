"""The embedded pair behind a real socket, and what the README asks of it."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import openai
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from models.runtime import load_runtime
from server.settings import Settings
from tests.server.stand import running, wait_until

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}
ASK: ChatCompletionMessageParam = {"role": "user", "content": "What is the weather in Oslo?"}


@contextmanager
def embedded(**settings: object) -> Generator[openai.OpenAI]:
    """The SDK before a server that has loaded the pair."""
    with (
        running(partial(load_runtime, None, "auto"), Settings.model_validate(settings)) as (port, engine),
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        wait_until(lambda: engine.health.state != "loading")
        yield client
