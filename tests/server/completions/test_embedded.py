"""Completions of the embedded pair: really loaded, really drafting."""

from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.server.embedded import embedded

PROMPT = "〈|EOS|〉<system>You are Laguna, a tiny assistant.</system>\n<user>Hello there!</user>\n<assistant></think>"


@pytest.fixture(scope="module")
def sdk() -> Iterator[openai.OpenAI]:
    with embedded(prefix_cache_gib=0.05) as client:
        yield client


def test_a_rendered_prompt_goes_on_as_the_chat_does_whatever_drafts_and_however_it_is_sent(sdk: openai.OpenAI) -> None:
    chat = sdk.chat.completions.create(
        model="laguna-tiny",
        messages=[{"role": "user", "content": "Hello there!"}],
        temperature=0,
        reasoning_effort="none",
        max_tokens=40,
    )
    asked: Any = {"model": "laguna-tiny", "temperature": 0, "max_tokens": 40}
    told = httpx2.post(f"{sdk.base_url}tokenize", json={"prompt": PROMPT}).json()
    ids = told["tokens"]
    assert httpx2.post(f"{sdk.base_url}detokenize", json={"tokens": ids}).json()["content"] == PROMPT
    for prompt in (PROMPT, ids):
        for speculation in ("always", "off"):
            told = sdk.completions.create(prompt=prompt, extra_body={"speculation": speculation}, **asked)
            assert told.choices[0].text == chat.choices[0].message.content
            assert told.usage is not None
            assert chat.usage is not None
            assert told.usage.prompt_tokens == chat.usage.prompt_tokens


def test_the_stream_of_several_prompts_adds_up_to_the_answer(sdk: openai.OpenAI) -> None:
    asked: Any = {
        "model": "laguna-tiny",
        "prompt": ["The weather in", "naïve ☕ and"],
        "n": 2,
        "seed": 5,
        "temperature": 1.2,
        "max_tokens": 24,
        "logprobs": 3,
        "stop": ["zz", "\n\n"],
        "presence_penalty": 0.5,
    }
    whole = sdk.completions.create(**asked)
    joined: list[dict[str, list[Any]]] = [{"text": [], "tokens": [], "text_offset": [], "reason": []} for _ in range(4)]
    for chunk in sdk.completions.create(stream=True, **asked):
        choice = chunk.choices[0]
        own = joined[choice.index]
        own["text"].append(choice.text)
        own["reason"].append(choice.finish_reason)
        if choice.logprobs is not None:
            own["tokens"] += choice.logprobs.tokens or []
            own["text_offset"] += choice.logprobs.text_offset or []
    for choice, own in zip(whole.choices, joined, strict=True):
        assert "".join(own["text"]) == choice.text
        assert own["reason"] == [None] * (len(own["reason"]) - 1) + [choice.finish_reason]
        assert choice.logprobs is not None
        assert own["tokens"] == choice.logprobs.tokens
        assert own["text_offset"] == choice.logprobs.text_offset
        assert "".join(choice.logprobs.tokens or []) == choice.text
    again = sdk.completions.create(**asked | {"prompt": ["naïve ☕ and"], "n": 1}, extra_body={"speculation": "off"})
    assert again.choices[0].text == whole.choices[2].text


def test_an_echo_tells_of_the_prompt_what_was_told_of_it_as_an_answer(sdk: openai.OpenAI) -> None:
    asked: Any = {"model": "laguna-tiny", "temperature": 0, "max_tokens": 24, "logprobs": 5}
    first = sdk.completions.create(prompt=PROMPT, **asked).choices[0]
    again = sdk.completions.create(prompt=PROMPT + first.text, echo=True, **asked | {"max_tokens": 1}).choices[0]
    assert again.text.startswith(PROMPT + first.text)
    assert first.logprobs is not None
    assert again.logprobs is not None
    answer, told = first.logprobs, again.logprobs
    assert "".join(told.tokens or []) == again.text
    assert told.token_logprobs is not None
    assert told.text_offset is not None
    assert told.token_logprobs[0] is None
    start = told.text_offset.index(len(PROMPT))
    stop = start + len(answer.tokens or [])
    assert (told.tokens or [])[start:stop] == answer.tokens
    assert told.token_logprobs[start:stop] == pytest.approx(answer.token_logprobs, abs=1e-4)
    assert [set(top) for top in (told.top_logprobs or [])[start:stop]] == [
        set(top) for top in answer.top_logprobs or []
    ]
