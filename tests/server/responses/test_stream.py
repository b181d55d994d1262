"""A stream of a response, event by event, and that it adds up to the answer whatever is said and however it is cut."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.responses import encode
from server.api.responses.items import Output as Called
from server.api.responses.items import conversation, read
from server.api.responses.output import Output
from server.events import Answer, Event, Finished, Piece, Report, Usage
from server.transcript import Transcript
from tests.server.responses.wire import answered, calls, events, folded, post, streamed, texts
from tests.server.script import SPECIALS, ScriptPair, ScriptTokenizer, forever, ids_of, says
from tests.server.stand import Stand, stand
from tests.server.texts import OSLO, TEXTS
from tools.events import merged
from tools.laguna import Reader, fold
from tools.stops import Stops

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}
PING = {"type": "function", "name": "ping"}
THINKS: dict[str, Any] = {"tools": [WEATHER, PING], "reasoning": {"effort": "high"}}


@pytest.fixture(scope="module", params=TEXTS.values(), ids=list(TEXTS))
def served(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with stand(ScriptPair(says(request.param))) as running:
        yield running


def nameless(response: dict[str, Any]) -> dict[str, Any]:
    """The response without what is new in each answer."""
    new = ("id", "call_id", "created_at", "completed_at", "laguna")
    output = [{name: value for name, value in item.items() if name not in new} for item in response["output"]]
    return {name: value for name, value in response.items() if name not in new} | {"output": output}


@pytest.mark.parametrize("include", [[], ["reasoning.encrypted_content", "message.output_text.logprobs"]], ids=str)
@pytest.mark.parametrize("summary", [None, "auto"])
def test_the_fold_of_the_stream_is_the_answer(served: Stand, summary: str | None, include: list[str]) -> None:
    asked = THINKS | {"include": include, "reasoning": {"effort": "high", "summary": summary}}
    told = streamed(served, **asked)
    whole = folded(told)
    assert whole == told[-1]["response"]
    assert nameless(whole) == nameless(answered(served, **asked))
    assert whole["output"]


def test_the_events_of_an_answer_come_in_the_order_of_the_api() -> None:
    with stand(ScriptPair(says(f"I look.</think>On it.{OSLO}", block=100))) as served:
        kinds = [told["type"].removeprefix("response.") for told in streamed(served, **THINKS)]
    item = ("output_item.added", "output_item.done")
    part = (item[0], "content_part.added", "{0}.delta", "{0}.done", "content_part.done", item[1])
    assert kinds == [
        "created",
        "in_progress",
        *(step.format("reasoning_text") for step in part),
        *(step.format("output_text") for step in part),
        item[0],
        "function_call_arguments.delta",
        "function_call_arguments.done",
        item[1],
        "completed",
    ]


def test_thoughts_are_summaries_where_those_are_asked_for() -> None:
    with stand(ScriptPair(says("I look.</think>It is 7."))) as served:
        told = streamed(served, reasoning={"effort": "low", "summary": "concise"})
    assert [event["type"] for event in told if "reasoning_text" in event["type"]] == []
    thought, message = told[-1]["response"]["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "I look."}]
    assert thought["content"] == []
    assert message["content"][0]["text"] == "It is 7."
    assert told[-1]["response"]["usage"]["output_tokens_details"] == {"reasoning_tokens": 7}


def test_a_call_without_arguments_says_an_empty_object() -> None:
    with stand(ScriptPair(says("<tool_call>ping</tool_call>"))) as served:
        for response in (answered(served, tools=[PING]), folded(streamed(served, tools=[PING]))):
            assert calls(response) == [("ping", {})]


def test_a_call_that_is_cut_by_the_budget_is_marked_as_incomplete_and_its_text_is_shown() -> None:
    budget = len("_get_weather<arg_key>city</arg_key><arg_value>Os")
    with stand(ScriptPair(says(OSLO))) as served:
        for response in (
            answered(served, tools=[WEATHER], max_output_tokens=budget),
            folded(streamed(served, tools=[WEATHER], max_output_tokens=budget)),
        ):
            assert (response["status"], response["incomplete_details"]) == (
                "incomplete",
                {"reason": "max_output_tokens"},
            )
            call, message = response["output"]
            assert (call["type"], call["status"]) == ("function_call", "incomplete")
            assert calls(response) == []
            assert message["status"] == "incomplete"
            assert texts(response)["message"].endswith("<arg_value>Os")


def test_a_stream_begins_before_there_is_anything_to_say_and_says_so_again_meanwhile() -> None:
    pair = ScriptPair(says("ab"))
    with stand(pair, keep_alive=0.05) as served:
        pair.gate.clear()
        with served.http.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as response:
            got = ""
            for text in response.iter_text():
                got += text
                if got.count("event: response.in_progress") == 3:
                    pair.gate.set()
        told = events(got)
        assert [event["type"] for event in told[:4]] == ["response.created", *["response.in_progress"] * 3]
        assert texts(folded(told))["message"] == "ab"


def test_a_failure_in_mid_stream_ends_it_with_a_failed_response() -> None:
    with stand(ScriptPair(lambda _: [ids_of("ab"), RuntimeError("no")])) as served:
        told = streamed(served)
        assert told[-1]["type"] == "response.failed"
        response = told[-1]["response"]
        assert response["status"] == "failed"
        assert response["error"] == {
            "code": "server_error",
            "message": "The request failed while it was generated: RuntimeError",
        }
        assert post(served).status_code == 500


def test_leaving_a_stream_frees_its_slot_and_forgets_the_response() -> None:
    pair = ScriptPair(forever, pace=0.005, context_length=100_000)
    with stand(pair) as served:
        with served.http.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as response:
            arriving = response.iter_text()
            text = next(arriving)
            id_ = events(text[: text.index("\n\n") + 2])[0]["response"]["id"]
            assert served.http.get(f"/v1/responses/{id_}").json()["status"] == "in_progress"
        served.wait_until(lambda: pair.sessions == 0)
        served.wait_until(lambda: served.http.get(f"/v1/responses/{id_}").status_code == 404)


ALPHABET = st.sampled_from([*SPECIALS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "ping", "get_weather"])
SAID = st.lists(ALPHABET | st.sampled_from([OSLO, "city", "days", "7", " ", "\n", "ü"]), max_size=14).map("".join)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=8)
REPORT = Report(1, 0, 0, 0.0, 0.0, 0, {}, speculation_off=None, cache_parted=None)
TOOLS = [
    {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
    for tool in (WEATHER, PING)
]


def told(text: str, cuts: Sequence[int], *, end: str, thinking: bool) -> tuple[list[list[Piece]], Finished]:
    """The pieces of each round, cut as it says, and the end."""
    transcript = Transcript(ScriptTokenizer().decoder(), Stops([]), Reader(TOOLS, thinking))
    ids, rounds, at = ids_of(text), [], 0
    while at < len(ids):
        width = cuts[len(rounds) % len(cuts)]
        rounds.append(transcript.push(ids[at : at + width]))
        at += width
    last = "stop" if end == "stop" else "length"
    rounds.append(transcript.finish(last))
    usage = Usage(30, transcript.completion_tokens, transcript.reasoning_tokens, 4)
    return rounds, Finished(transcript.reason(last), usage, REPORT)


async def collected(said: Sequence[Event], telling: encode.Telling) -> str:
    async def told() -> AsyncGenerator[Event]:
        for event in said:
            yield event

    return b"".join([frame async for frame in encode.frames(told(), telling)]).decode()


@given(SAID, CUTS, CUTS, st.sampled_from(["stop", "length"]), st.booleans(), st.booleans(), st.booleans())
def test_any_stream_however_cut_folds_to_the_answer(
    text: str, cut: list[int], other: list[int], end: str, thinking: bool, summarised: bool, seals: bool
) -> None:
    rounds, finished = told(text, cut, end=end, thinking=thinking)
    again, also = told(text, other, end=end, thinking=thinking)
    pieces = merged(piece for each in again for piece in each)
    envelope = encode.Envelope("resp_1", {"id": "resp_1"}, Output("0" * 32, summarised, seals))
    said = [*(piece for each in rounds for piece in each), finished]
    stream = events(asyncio.run(collected(said, encode.Telling(envelope))))
    whole = encode.body(Answer(fold(pieces), also, pieces=tuple(pieces)), encode.Telling(envelope))
    assert nameless(folded(stream)) == nameless(whole)
    assert folded(stream)["output"] == whole["output"] == stream[-1]["response"]["output"]
    message = fold(pieces)
    assert texts(whole) == {"reasoning": message.reasoning or "", "message": message.content or ""}
    assert [name for name, _ in calls(whole)] == [call.name for call in message.calls]


@given(SAID, CUTS, st.booleans(), st.booleans())
def test_an_answer_that_is_sent_back_is_one_message_of_what_was_said(
    text: str, cuts: list[int], thinking: bool, summarised: bool
) -> None:
    rounds, finished = told(text, cuts, end="stop", thinking=thinking)
    pieces = merged(piece for each in rounds for piece in each)
    envelope = encode.Envelope("resp_1", {"id": "resp_1"}, Output("0" * 32, summarised))
    output = encode.body(Answer(fold(pieces), finished, pieces=tuple(pieces)), encode.Telling(envelope))["output"]
    items = [read(item, "input", lambda _: None) for item in output]
    results = [Called.model_validate({"call_id": item["call_id"], "output": "3"}) for item in output if may_run(item)]
    plain, *tools = conversation(None, [*items, *results])
    message = fold(pieces)
    assert plain["content"] == (message.content or "")
    assert plain.get("reasoning_content", "") == (message.reasoning or "")
    asked = [call["function"] for call in plain.get("tool_calls", ())]
    assert [(call["name"], call["arguments"]) for call in asked] == [(c.name, c.arguments) for c in message.calls]
    assert [tool["role"] for tool in tools] == ["tool"] * len(asked)


def may_run(item: dict[str, Any]) -> bool:
    """Whether it is a call that may be run."""
    return item["type"] == "function_call" and item["status"] == "completed"
