"""A stream of messages, frame by frame, and that it adds up to the answer whatever is said and however it is cut."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.messages import encode
from server.events import Answer, Event, Finished, Piece, Report, Usage
from server.transcript import Transcript
from tests.server.messages.wire import asked, folded, frames, post, streamed
from tests.server.script import SPECIALS, ScriptPair, ScriptTokenizer, forever, ids_of, says
from tests.server.stand import Stand, stand
from tests.server.texts import OSLO, TEXTS
from tools.events import merged
from tools.laguna import Reader, fold
from tools.stops import Stops

WEATHER = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}
PING = {"name": "ping", "input_schema": {"type": "object"}}
THINKS = {"tools": [WEATHER, PING], "thinking": {"type": "adaptive"}}


@pytest.fixture(scope="module", params=TEXTS.values(), ids=list(TEXTS))
def served(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with stand(ScriptPair(says(request.param))) as running:
        yield running


def nameless(message: dict[str, Any]) -> dict[str, Any]:
    """The message without what is new in each answer."""
    content = [{name: value for name, value in block.items() if name != "id"} for block in message["content"]]
    return message | {"id": None, "content": content, "laguna": None}


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_the_fold_of_the_stream_is_the_answer(served: Stand, display: str) -> None:
    asked = THINKS | {"thinking": {"type": "adaptive", "display": display}}
    whole = folded(streamed(post(served, stream=True, **asked)))
    assert nameless(whole) == nameless(post(served, **asked).json())


def test_a_call_without_arguments_says_an_empty_object() -> None:
    with stand(ScriptPair(says("<tool_call>ping</tool_call>"))) as served:
        (call,) = post(served, tools=[PING]).json()["content"]
        assert (call["name"], call["input"]) == ("ping", {})
        assert folded(streamed(post(served, tools=[PING], stream=True)))["content"][0]["input"] == {}


def test_a_call_that_is_cut_by_the_budget_is_no_call_and_its_text_is_shown() -> None:
    with stand(ScriptPair(says(OSLO))) as served:
        answer = post(
            served, tools=[WEATHER], max_tokens=len("_get_weather<arg_key>city</arg_key><arg_value>Os")
        ).json()
        assert answer["stop_reason"] == "max_tokens"
        assert [block["type"] for block in answer["content"]] == ["text"]
        assert answer["content"][0]["text"].endswith("<arg_value>Os")


def test_the_stop_sequence_that_ended_the_answer_is_told() -> None:
    with stand(ScriptPair(says("one two three"))) as served:
        for streams in (False, True):
            response = post(served, stop_sequences=["xyz", " three", "two"], stream=streams)
            answer = folded(streamed(response)) if streams else response.json()
            assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "two")
            assert answer["content"] == [{"type": "text", "text": "one "}]


def test_a_stream_begins_before_there_is_anything_to_say_and_pings_meanwhile() -> None:
    pair = ScriptPair(says("ab"))
    with stand(pair, keep_alive=0.05) as served:
        pair.gate.clear()
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        with served.http.stream("POST", "/v1/messages", json=body) as response:
            got = ""
            for text in response.iter_text():
                got += text
                if got.count("event: ping") == 2:
                    pair.gate.set()
        names = [name for name, _ in frames(got)]
        assert names[:3] == ["message_start", "ping", "ping"]
        assert frames(got)[1] == ("ping", {"type": "ping"})
        assert frames(got)[0][1]["message"]["usage"]["input_tokens"] == 10
        assert folded(frames(got))["content"] == [{"type": "text", "text": "ab"}]


def test_a_failure_in_mid_stream_ends_it_with_an_error_event() -> None:
    with stand(ScriptPair(lambda _: [ids_of("ab"), RuntimeError("no")])) as served:
        response = post(served, stream=True)
        *before, (name, told) = frames(response.text)
        assert before[-1][0] == "content_block_delta"
        assert name == "error"
        assert told["error"] == {
            "type": "api_error",
            "message": "The request failed while it was generated: RuntimeError",
        }
        assert told["request_id"] == response.headers["request-id"]


def test_a_plain_answer_whose_client_leaves_frees_its_slot() -> None:
    pair = ScriptPair(forever, pace=0.005, context_length=100_000)
    with stand(pair) as served:
        body = json.dumps(asked(max_tokens=90_000)).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\ncontent-type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            served.wait_until(lambda: pair.sessions == 1)
        served.wait_until(lambda: pair.sessions == 0)


ALPHABET = st.sampled_from([*SPECIALS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "ping", "get_weather"])
SAID = st.lists(ALPHABET | st.sampled_from([OSLO, "city", "days", "7", " ", "\n", "ü", "stop"]), max_size=14).map(
    "".join
)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=8)
REPORT = Report(1, 0, 0, 0.0, 0.0, 0, {}, speculation_off=None, cache_parted=None)
TOOLS = [
    {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
    for tool in (WEATHER, PING)
]


def told(text: str, cuts: Sequence[int], *, end: str, thinking: bool) -> tuple[list[list[Piece]], Finished]:
    """The pieces of each round, cut as it says, and the end."""
    transcript = Transcript(ScriptTokenizer().decoder(), Stops(["stop"]), Reader(TOOLS, thinking))
    ids, rounds, at = ids_of(text), [], 0
    while at < len(ids):
        width = cuts[len(rounds) % len(cuts)]
        rounds.append(transcript.push(ids[at : at + width]))
        at += width
    last = "stop" if transcript.stopped or end == "stop" else "length"
    rounds.append(transcript.finish(last))
    usage = Usage(30, transcript.completion_tokens, transcript.reasoning_tokens, 4)
    return rounds, Finished(transcript.reason(last), usage, REPORT, transcript.stop)


async def collected(events: Sequence[Event], envelope: encode.Envelope) -> str:
    async def told() -> AsyncGenerator[Event]:
        for event in events:
            yield event

    return b"".join([frame async for frame in encode.frames(told(), envelope)]).decode()


@given(SAID, CUTS, CUTS, st.sampled_from(["stop", "length"]), st.booleans(), st.booleans())
def test_any_stream_however_cut_folds_to_the_answer(
    text: str, cut: list[int], other: list[int], end: str, thinking: bool, omits: bool
) -> None:
    rounds, finished = told(text, cut, end=end, thinking=thinking)
    again, also = told(text, other, end=end, thinking=thinking)
    pieces = merged(piece for each in again for piece in each)
    envelope = encode.Envelope("0" * 32, "m", 30, omits)
    stream = asyncio.run(collected([*(piece for each in rounds for piece in each), finished], envelope))
    assert folded(streamed_text(stream)) == encode.body(Answer(fold(pieces), also, pieces=tuple(pieces)), envelope)


def streamed_text(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = frames(text)
    assert [name for name, _ in found].count("message_stop") == 1
    return found
