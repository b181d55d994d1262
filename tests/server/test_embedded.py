"""The embedded pair behind a real socket: the README's tool example, streamed by the SDK, decoded block by block."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import cast

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_token_logprob import ChatCompletionTokenLogprob

from models.decode.sampling import seed_of_choice
from models.runtime import load_runtime
from server.engine import Engine
from server.events import Answer, summed
from server.generation import begin
from server.settings import Settings
from server.turn import Turn, Wishes
from tests.server.embedded import ASK, WEATHER, embedded

GREETING: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello! Wie heißt du? 😀"}]


@pytest.fixture(scope="module")
def sdk() -> Iterator[openai.OpenAI]:
    with embedded() as client:
        yield client


def streamed(
    sdk: openai.OpenAI, *messages: ChatCompletionMessageParam, temperature: float = 0, **extra: object
) -> ChatCompletion:
    state = ChatCompletionStreamState()
    for chunk in sdk.chat.completions.create(
        model="laguna-tiny",
        messages=messages,
        tools=[WEATHER],
        temperature=temperature,
        seed=7,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    ):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def test_the_readme_example_calls_the_tool_and_reads_its_result(sdk: openai.OpenAI) -> None:
    choice = streamed(sdk, ASK, speculation="always").choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] == "Oslo"
    result: ChatCompletionMessageParam = {
        "role": "tool",
        "tool_call_id": call.id,
        "content": '{"temperature": 7, "sky": "cloudy"}',
    }
    spoken = cast("ChatCompletionMessageParam", choice.message.to_dict())
    answer = streamed(sdk, ASK, spoken, result).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.message.content is not None
    assert "7" in answer.message.content
    assert "cloudy" in answer.message.content


@pytest.mark.parametrize("temperature", [0, 0.7, 1.2])
def test_the_text_is_the_same_whatever_speculation_does_alone_and_beside_others(
    sdk: openai.OpenAI, temperature: float
) -> None:
    plain = streamed(sdk, ASK, temperature=temperature, speculation="off")
    drafted = streamed(sdk, ASK, temperature=temperature, speculation="always")
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(streamed, sdk, ASK, temperature=1, speculation="always") for _ in range(3)]
        beside = pool.submit(streamed, sdk, ASK, temperature=temperature).result()
        assert all(other.result().choices for other in others)
    assert said(plain) == said(drafted) == said(beside)


@pytest.mark.parametrize("speculation", ["always", "off"])
def test_the_sdk_reads_log_probabilities_of_several_choices(sdk: openai.OpenAI, speculation: str) -> None:
    create = partial(
        sdk.chat.completions.create,
        model="laguna-tiny",
        messages=GREETING,
        temperature=1.1,
        seed=4,
        n=3,
        max_tokens=40,
        logprobs=True,
        top_logprobs=5,
        logit_bias={"300": -5},
        presence_penalty=0.5,
        frequency_penalty=0.2,
        extra_body={"speculation": speculation, "repetition_penalty": 1.1, "min_tokens": 8},
    )
    whole, state = create(), ChatCompletionStreamState()
    for chunk in create(stream=True, stream_options={"include_usage": True}):
        state.handle_chunk(chunk)
    folded = state.current_completion_snapshot
    assert folded.usage is not None
    assert whole.usage is not None
    assert folded.usage.completion_tokens == whole.usage.completion_tokens
    assert folded.usage.prompt_tokens == whole.usage.prompt_tokens
    for one, other in zip(whole.choices, folded.choices, strict=True):
        assert (one.index, one.finish_reason) == (other.index, other.finish_reason)
        assert one.message.content == (other.message.content or "")
        entries = tokens_of(one)
        assert [entry.token for entry in entries] == [entry.token for entry in tokens_of(other)]
        assert "".join(entry.token for entry in entries) == one.message.content
        spelt = bytes(byte for entry in entries for byte in entry.bytes or [])
        assert spelt.decode(errors="replace") == one.message.content
        assert all(-9999 <= entry.logprob <= 0 and len(entry.top_logprobs) == 5 for entry in entries)
    assert len({choice.message.to_json() for choice in whole.choices}) > 1
    first = create(n=1)
    assert first.choices[0].message.content == whole.choices[0].message.content


def test_the_prompt_of_several_choices_is_read_once_and_each_says_what_it_says_alone() -> None:
    async def choices() -> tuple[list[Answer], list[Answer]]:
        engine = Engine(partial(load_runtime, None, "auto"), Settings(prefix_cache_gib=0.1))
        await engine.start()
        while engine.health.state == "loading":
            await asyncio.sleep(0.01)
        try:
            turn = Turn(({"role": "user", "content": "Hello there!"},), wishes=Wishes(temperature=1.2, seed=5))
            together = await (await begin(engine, replace(turn, choices=4, max_tokens=24))).answers()
            seeds = [seed_of_choice(5, choice) for choice in range(4)]
            alone = [
                await begin(engine, replace(turn, wishes=replace(turn.wishes, seed=seed), max_tokens=24))
                for seed in seeds
            ]
            return together, [(await generation.answers())[0] for generation in alone]
        finally:
            await engine.stop()

    together, alone = asyncio.run(asyncio.wait_for(choices(), 60))
    assert [answer.message for answer in together] == [answer.message for answer in alone]
    usages = [answer.finished.usage for answer in together]
    assert [usage.cached for usage in usages] == [0] + [usages[0].prompt - 1] * 3
    assert summed([answer.finished for answer in together])[0].cached == 0


def test_a_thinking_budget_ends_the_thinking_and_the_answer_goes_on(sdk: openai.OpenAI) -> None:
    free = streamed(sdk, ASK, reasoning_effort="high")
    bound = streamed(sdk, ASK, reasoning_effort="high", thinking_token_budget=3)
    assert free.usage is not None
    assert bound.usage is not None
    thought = [usage.completion_tokens_details for usage in (free.usage, bound.usage)]
    assert [details is not None and details.reasoning_tokens for details in thought][1] == 3
    assert (free.choices[0].message.model_extra or {})["reasoning_content"].startswith(
        (bound.choices[0].message.model_extra or {})["reasoning_content"]
    )
    assert bound.choices[0].finish_reason in ("stop", "tool_calls")


def tokens_of(choice: Choice) -> list[ChatCompletionTokenLogprob]:
    assert choice.logprobs is not None
    return choice.logprobs.content or []


def said(answer: ChatCompletion) -> list[object]:
    """Everything but the ids of calls."""
    message = answer.choices[0].message
    called = [call.to_dict()["function"] for call in message.tool_calls or ()]
    return [message.content, (message.model_extra or {}).get("reasoning_content"), called]


@pytest.mark.parametrize("speculation", ["auto", "always", "off"])
def test_a_prediction_changes_no_text_and_says_how_much_of_it_came(sdk: openai.OpenAI, speculation: str) -> None:
    def told(**wishes: object) -> ChatCompletion:
        return sdk.chat.completions.create(
            model="laguna-tiny",
            messages=GREETING,
            temperature=0,
            max_completion_tokens=60,
            reasoning_effort="none",
            extra_body={"speculation": speculation, **wishes},
        )

    plain = told()
    text = plain.choices[0].message.content
    assert text
    predicted = told(prediction={"type": "content", "content": text})
    assert predicted.choices[0].message.content == text
    assert predicted.usage is not None
    details = predicted.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert details.accepted_prediction_tokens > 0.9 * (predicted.usage.completion_tokens - 2)
    assert details.rejected_prediction_tokens == 0


def test_who_wrote_each_token_adds_up_to_the_report(sdk: openai.OpenAI) -> None:
    tools: list[ChatCompletionToolParam] = [WEATHER]
    for speculation in ("always", "off"):
        extra = {"laguna": {"tokens": True}, "speculation": speculation, "reasoning_effort": "none"}
        answer = sdk.chat.completions.create(
            model="laguna-tiny", messages=[ASK], tools=tools, temperature=0, extra_body=extra
        ).to_dict()
        (choice,), report = cast(list[dict], answer["choices"]), cast(dict, answer["laguna"])
        writers = [writer for _, writer in choice["laguna"]["tokens"]]
        by_source = {source: counts["accepted"] for source, counts in report["sources"].items() if counts["accepted"]}
        assert {writer: writers.count(writer) for writer in {*writers} - {"target"}} == by_source
        assert bool(by_source) == (speculation == "always")
        assert "".join(text for text, _ in choice["laguna"]["tokens"]).startswith("<tool_call>get_weather")
