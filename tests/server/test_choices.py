"""Several answers to one prompt, log probabilities, one call at most, and the fields that only some know."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from server.api.chat import parameters
from server.api.parameters import IGNORED
from tests.server.script import SPECIALS, Round, Script, ScriptPair, ids_of, says
from tests.server.stand import Stand, asked, stand
from tests.server.wire import chunks, folded

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "string"}}}}}
ONE = "<tool_call>add<arg_key>a</arg_key><arg_value>{}</arg_value></tool_call>"
HI: Any = [{"role": "user", "content": "hi"}]
MODEL = "Laguna-Script"


def turns() -> Script:
    """Every request in turn says a longer answer than the one before."""
    number = iter(range(1, 99))

    def script(_: str) -> Iterator[Round]:
        text = "ab" * next(number)
        return iter([ids_of(text[start : start + 3]) for start in range(0, len(text), 3)])

    return script


@pytest.fixture
def served() -> Iterator[Stand]:
    with stand(ScriptPair(turns())) as running:
        yield running


def test_n_answers_are_n_choices_and_the_prompt_is_counted_once(served: Stand) -> None:
    answer = served.post(n=3, seed=7).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["ab", "abab", "ababab"]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop"] * 3
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (10, 12)
    seeds = [request.sampling.seed for request in served.pair.requests]
    assert seeds[0] == 7
    assert len(set(seeds)) == 3
    served.post(n=2, seed=7)
    assert [request.sampling.seed for request in served.pair.requests[3:]] == seeds[:2]
    assert served.pair.sessions == 0


def test_a_stream_of_choices_names_all_roles_first_and_ends_each_once(served: Stand) -> None:
    stream = chunks(served.post(n=3, stream=True, stream_options={"include_usage": True}))
    roles = [chunk["choices"][0] for chunk in stream[:3]]
    assert [(choice["index"], choice["delta"].get("role")) for choice in roles] == [(i, "assistant") for i in range(3)]
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in stream[3:-1])
    assert all(chunk["usage"] is None for chunk in stream[:-1])
    assert (stream[-1]["choices"], stream[-1]["usage"]["completion_tokens"]) == ([], 12)
    for index, text in enumerate(["ab", "abab", "ababab"]):
        own = [chunk for chunk in stream[:-1] if chunk["choices"][0]["index"] == index]
        assert folded(own)["content"] == text
        assert [chunk["choices"][0]["finish_reason"] for chunk in own] == [None] * (len(own) - 1) + ["stop"]


def test_the_sdk_reads_choices_and_their_tokens_in_a_stream_and_whole(served: Stand) -> None:
    wishes: Any = {"model": MODEL, "messages": HI, "n": 2, "logprobs": True, "top_logprobs": 2}
    whole = served.sdk.chat.completions.create(**wishes)
    assert [choice.message.content for choice in whole.choices] == ["ab", "abab"]
    with served.sdk.chat.completions.stream(**wishes) as stream:
        last = stream.get_final_completion()
    assert [choice.message.content for choice in last.choices] == ["ababab", "abababab"]
    for choice in [*whole.choices, *last.choices]:
        assert choice.logprobs is not None
        entries = choice.logprobs.content or []
        assert "".join(entry.token for entry in entries) == choice.message.content
        assert all(entry.bytes == list(entry.token.encode()) and entry.logprob <= 0 for entry in entries)
        assert [[best.token for best in entry.top_logprobs] for entry in entries] == [
            [entry.token, chr(ord(entry.token) + 1)] for entry in entries
        ]


def test_a_choice_that_stops_early_leaves_its_place_and_the_others_go_on() -> None:
    with stand(ScriptPair(turns()), concurrency=8) as served:
        answer = served.post(n=4, stop="aba").json()
        assert [choice["message"]["content"] for choice in answer["choices"]] == ["ab", "", "", ""]
        served.wait_until(lambda: served.engine.health.running == 0)


def test_more_choices_than_may_wait_are_refused_together() -> None:
    with stand(ScriptPair(says("x")), concurrency=1, queue=2) as served:
        assert served.post(n=4).status_code == 429
        assert served.post(n=3).status_code == 200


def test_the_others_wait_until_the_first_has_read_the_prompt() -> None:
    """So that they find it read; and a client that leaves before takes all of them along."""
    with stand(ScriptPair(says("abcdef")), concurrency=8) as served:
        served.pair.gate.clear()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(served.post, n=4)
            served.wait_until(lambda: served.pair.sessions == 1)
            assert (served.engine.health.running, served.engine.health.waiting) == (1, 3)
            served.pair.gate.set()
            assert len(answer.result().json()["choices"]) == 4
        assert len(served.pair.requests) == 4
        first = served.pair.requests[0]
        assert first.marks[-1] == len(first.prompt) - 1
        served.pair.gate.clear()
        with served.http.stream("POST", "/v1/chat/completions", json=asked(n=4, stream=True)) as response:
            # An iterator that nobody keeps would close the connection.
            heard = response.iter_text()
            next(heard)
            served.wait_until(lambda: served.pair.sessions == 1)
        served.wait_until(lambda: served.engine.health.running == served.engine.health.waiting == 0)
        served.pair.gate.set()
        served.wait_until(lambda: served.pair.sessions == 0)
        assert len(served.pair.requests) == 5


def test_one_choice_that_fails_fails_the_answer() -> None:
    number = iter(range(9))
    script = lambda _: [RuntimeError("no")] if next(number) == 1 else [ids_of("ab")]  # noqa: E731
    with stand(ScriptPair(script)) as served:
        assert served.post(n=3).status_code == 500
        served.wait_until(lambda: served.pair.sessions == 0)


def test_logprobs_without_alternatives_are_empty_lists_and_without_asking_null() -> None:
    with stand(ScriptPair(says("<think>hm</think>hé"))) as served:
        assert served.post().json()["choices"][0]["logprobs"] is None
        for alternatives in ({}, {"top_logprobs": 0}, {"top_logprobs": None}):
            told = served.post(logprobs=True, **alternatives).json()["choices"][0]["logprobs"]
            assert told["refusal"] is None
            assert [(entry["token"], entry["bytes"], entry["top_logprobs"]) for entry in told["content"]] == [
                ("h", [104], []),
                ("", [195], []),
                ("é", [169], []),
            ]


def test_every_chunk_has_the_logprobs_of_its_text() -> None:
    with stand(ScriptPair(says("<think>hm</think>one END two"))) as served:
        stream = chunks(served.post(logprobs=True, top_logprobs=1, stream=True, stop="END"))
        whole = served.post(logprobs=True, top_logprobs=1, stop="END").json()["choices"][0]
    entries: list[Any] = []
    for choice in (chunk["choices"][0] for chunk in stream):
        own = (choice["logprobs"] or {"content": []})["content"]
        assert "".join(entry["token"] for entry in own) == choice["delta"].get("content", "")
        entries += own
    assert entries == whole["logprobs"]["content"]
    assert whole["message"]["content"] == "one "


def test_what_cannot_be_is_told_as_openais_floor() -> None:
    from server.api.logprobs import logprobs
    from server.events import Token

    told = logprobs([Token("a", b"a", float("-inf"), ((b"\xff", float("-inf")),))])["content"][0]
    assert told["logprob"] == told["top_logprobs"][0]["logprob"] == -9999.0
    assert (told["top_logprobs"][0]["token"], told["top_logprobs"][0]["bytes"]) == ("\ufffd", [255])


@pytest.mark.parametrize("thinking", [False, True])
def test_at_most_one_call_when_calls_may_not_be_parallel(thinking: bool) -> None:
    text = ("" if thinking else "x") + ONE.format("1") + ONE.format("2") + ("" if thinking else "tail")
    wishes: Any = {"tools": [TOOL], "reasoning_effort": "high" if thinking else "none"}
    with stand(ScriptPair(says(text, block=40))) as served:
        both = served.post(**wishes, parallel_tool_calls=True).json()["choices"][0]
        assert len(both["message"]["tool_calls"]) == 2
        one = served.post(**wishes, parallel_tool_calls=False).json()
        stream = chunks(served.post(**wishes, parallel_tool_calls=False, stream=True))
    (choice,) = one["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": "1"}'}
    assert (choice["message"]["content"], choice["finish_reason"]) == (None if thinking else "x", "tool_calls")
    assert [made["arguments"] for made in folded(stream)["tool_calls"]] == ['{"a": "1"}']
    assert stream[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert thinking or one["usage"]["completion_tokens"] == len(ids_of("x" + ONE.format("1")))


def test_calls_of_different_choices_have_different_ids() -> None:
    with stand(ScriptPair(says(ONE.format("1") + ONE.format("2")))) as served:
        choices = served.post(tools=[TOOL], n=3).json()["choices"]
    ids = [call["id"] for choice in choices for call in choice["message"]["tool_calls"]]
    assert len(set(ids)) == 6


def test_wishes_reach_the_loop(served: Stand) -> None:
    served.post(
        logit_bias={"7": -100, "0": 2.5, "9": 0},
        presence_penalty=1,
        frequency_penalty=-0.5,
        repetition_penalty=1.1,
        min_tokens=3,
        top_logprobs=20,
        logprobs=True,
    )
    request = served.pair.requests[-1]
    assert request.sampling.logit_bias == ((7, -100.0), (0, 2.5))
    assert (request.sampling.presence_penalty, request.sampling.frequency_penalty) == (1.0, -0.5)
    assert (request.sampling.repetition_penalty, request.min_tokens, request.top_logprobs) == (1.1, 3, 20)
    assert request.thinking is None


def test_a_thinking_budget_bounds_what_the_prompt_opened(served: Stand) -> None:
    served.post(thinking_token_budget=4, reasoning_effort="high")
    thinking = served.pair.requests[-1].thinking
    assert thinking is not None
    assert (thinking.tokens, thinking.close_id) == (4, 256 + SPECIALS.index("</think>"))
    assert thinking.leaving_ids == frozenset()
    served.post(thinking_token_budget=4, reasoning_effort="high", tools=[TOOL])
    thinking = served.pair.requests[-1].thinking
    assert thinking is not None
    assert thinking.leaving_ids == {256 + SPECIALS.index("<tool_call>")}
    served.post(thinking_token_budget=4, reasoning_effort="none")
    assert served.pair.requests[-1].thinking is None


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_reasoning_effort_is_thinking_or_not(served: Stand, effort: str) -> None:
    assert served.post(reasoning_effort=effort).status_code == 200
    assert served.pair.prompts[-1].endswith("<think>") == (effort not in ("none", "minimal"))


def test_a_tier_that_was_asked_for_is_answered_with_the_only_one(served: Stand) -> None:
    assert "service_tier" not in served.post().json()
    for tier in ("auto", "default", "flex", "scale", "priority"):
        assert served.post(service_tier=tier).json()["service_tier"] == "default"
    assert all(chunk["service_tier"] == "default" for chunk in chunks(served.post(service_tier="auto", stream=True)))


@pytest.mark.parametrize("streamed", [False, True])
def test_fields_that_nobody_knows_are_named_in_a_header(served: Stand, streamed: bool) -> None:
    silent = dict.fromkeys(parameters.WITHOUT_EFFECT, "x")
    known = served.post(**silent, stream=streamed)
    assert IGNORED not in known.headers
    odd = {"reasoningSummary": 1, "ä\r\nx-evil: 1": 2, "": 3, "gone": None, "x" * 99: 4}
    response = served.post(**odd, **silent, stream=streamed)
    assert response.headers[IGNORED] == f"reasoningSummary, ???x-evil??1, ?, {'x' * 60}"
    many = served.post(**{f"field{number}": 0 for number in range(500)}, stream=streamed).headers[IGNORED]
    assert many.startswith("field0, field1, ")
    assert many.endswith("field19, ...")
