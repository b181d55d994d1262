"""The stream of a chat completion, byte by byte, over a real socket."""

import json
import re
from collections.abc import Iterable, Iterator

import pytest

from models.tokenizer import TextDecoder
from tests.server.script import ScriptPair, ScriptTokenizer, says
from tests.server.stand import Stand, asked, stand
from tests.server.texts import OSLO, TEXTS
from tests.server.wire import chunks, deltas, events, folded

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
PING = {"type": "function", "function": {"name": "ping"}}


# A stream has begun a call that was cut, and an answer has no such call.
WHOLE = {name: text for name, text in TEXTS.items() if name != "a call without its end"}


@pytest.fixture(scope="module", params=WHOLE.values(), ids=list(WHOLE))
def served(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with stand(ScriptPair(says(request.param))) as running:
        yield running


THINKING = {"tools": [WEATHER, PING], "reasoning_effort": "high"}


def test_the_fold_of_the_stream_is_the_answer(served: Stand) -> None:
    stream = chunks(served.post(stream=True, **THINKING))
    answer = served.post(**THINKING).json()
    message = answer["choices"][0]["message"]
    whole = folded(stream)
    assert whole["content"] == (message["content"] or "")
    assert whole["reasoning_content"] == message.get("reasoning_content", "")
    assert whole["tool_calls"] == [call["function"] for call in message.get("tool_calls", [])]
    assert stream[-1]["choices"][0]["finish_reason"] == answer["choices"][0]["finish_reason"]


def test_a_stream_has_one_role_first_and_one_finish_last(served: Stand) -> None:
    stream = chunks(served.post(stream=True, **THINKING))
    first, *rest = deltas(stream)
    assert first == {"role": "assistant", "content": ""}
    assert not any("role" in delta for delta in rest)
    assert rest[-1] == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in stream]
    assert [reason for reason in reasons if reason] == reasons[-1:]


def test_no_delta_is_empty_text(served: Stand) -> None:
    _, *rest, _ = deltas(chunks(served.post(stream=True, **THINKING)))
    assert all(delta.get("content", "x") and delta.get("reasoning_content", "x") for delta in rest)


def test_all_chunks_share_id_and_time_and_name_their_kind(served: Stand) -> None:
    stream = chunks(served.post(stream=True, **THINKING))
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in stream}) == 1
    assert stream[0]["object"] == "chat.completion.chunk"
    assert isinstance(stream[0]["created"], int)
    assert not any("error" in chunk for chunk in stream)


def test_a_call_says_its_id_type_and_name_once_and_arguments_in_fragments(served: Stand) -> None:
    calls = [
        call for delta in deltas(chunks(served.post(stream=True, **THINKING))) for call in delta.get("tool_calls", ())
    ]
    openers = [call for call in calls if "id" in call]
    assert [call["index"] for call in openers] == list(range(len(openers)))
    assert [call["index"] for call in calls] == sorted(call["index"] for call in calls)
    assert all(call["type"] == "function" and len(call["id"]) >= 9 for call in openers)
    assert len({call["id"] for call in openers}) == len(openers)
    followers = [call for call in calls if "id" not in call]
    assert all(call.keys() == {"index", "function"} and call["function"].keys() == {"arguments"} for call in followers)
    assert all(
        isinstance(json.loads(call["arguments"]), dict)
        for call in folded(chunks(served.post(stream=True, **THINKING)))["tool_calls"]
    )


def test_usage_is_a_last_chunk_when_asked_for_and_null_before(served: Stand) -> None:
    *before, last = chunks(served.post(stream=True, stream_options={"include_usage": True}, **THINKING))
    assert all(chunk["usage"] is None for chunk in before)
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 <= usage["completion_tokens_details"]["reasoning_tokens"] <= usage["completion_tokens"]
    assert usage == served.post(**THINKING).json()["usage"]
    assert last["laguna"]["rounds"] > 0
    assert "laguna" not in before[-1]


def test_without_it_no_chunk_has_usage_and_the_finish_chunk_tells_of_speculation(served: Stand) -> None:
    stream = chunks(served.post(stream=True, **THINKING))
    assert not any("usage" in chunk for chunk in stream)
    report = stream[-1]["laguna"]
    names = {"rounds", "drafted", "accepted", "prefill_seconds", "decode_seconds", "cached_tokens", "speculation_off"}
    names |= {"cache_parted", "sources", "drafted_by_depth", "accepted_by_depth"}
    assert report.keys() == names
    assert report.keys() == served.post(**THINKING).json()["laguna"].keys()


def test_call_ids_differ_between_answers() -> None:
    with stand(ScriptPair(says(OSLO))) as served:
        ids = [served.post(tools=[WEATHER]).json()["choices"][0]["message"]["tool_calls"][0]["id"] for _ in range(2)]
        assert ids[0] != ids[1]


def test_a_tool_without_arguments_is_called_with_an_empty_object_in_the_stream_too() -> None:
    with stand(ScriptPair(says("<tool_call>ping</tool_call>"))) as served:
        assert folded(chunks(served.post(stream=True, tools=[PING])))["tool_calls"] == [
            {"name": "ping", "arguments": "{}"}
        ]


def test_without_tools_in_force_a_call_is_content() -> None:
    with stand(ScriptPair(says(OSLO))) as served:
        for asked_for in ({"tools": [WEATHER], "tool_choice": "none"}, {"tools": []}, {}):
            choice = served.post(**asked_for).json()["choices"][0]
            assert choice["message"]["content"] == OSLO
            assert choice["finish_reason"] == "stop"
        assert "tool get_weather" not in served.pair.prompts[0]


def test_a_character_split_over_tokens_and_blocks_stays_whole() -> None:
    for block in (1, 2, 3, 5):
        with stand(ScriptPair(says("a😀ok", block=block))) as served:
            stream = chunks(served.post(stream=True))
            assert folded(stream)["content"] == "a😀ok"
            assert not any("�" in delta.get("content", "") for delta in deltas(stream))


def test_a_character_cut_by_the_budget_is_flushed_once() -> None:
    with stand(ScriptPair(says("a😀"))) as served:
        assert folded(chunks(served.post(stream=True, max_tokens=3)))["content"] == "a�"


def test_a_stop_string_inside_a_block_ends_the_answer_before_it() -> None:
    with stand(ScriptPair(says("x END y and more", block=16))) as served:
        for streamed in (True, False):
            served.pair.requests.clear()
            if streamed:
                stream = chunks(served.post(stream=True, stop="END", stream_options={"include_usage": True}))
                text, usage, reason = (
                    folded(stream)["content"],
                    stream[-1]["usage"],
                    stream[-2]["choices"][0]["finish_reason"],
                )
            else:
                answer = served.post(stop=["never", "END"]).json()
                text, usage, reason = (
                    answer["choices"][0]["message"]["content"],
                    answer["usage"],
                    answer["choices"][0]["finish_reason"],
                )
            assert (text, reason) == ("x ", "stop")
            assert usage["completion_tokens"] == 5


def test_a_stop_string_ends_the_session_too() -> None:
    with stand(ScriptPair(says("stop here" + "!" * 3000, block=2))) as served:
        assert served.post(stop="here").json()["choices"][0]["message"]["content"] == "stop "
        served.wait_until(lambda: served.pair.sessions == 0)


def test_text_that_only_begins_a_stop_string_is_not_lost() -> None:
    with stand(ScriptPair(says("UNO DUE TRE"))) as served:
        assert folded(chunks(served.post(stream=True, stop=["TRE\nAAAA"])))["content"] == "UNO DUE TRE"


def test_a_call_cut_by_the_budget_is_never_complete() -> None:
    with stand(ScriptPair(says(OSLO))) as served:
        choice = served.post(tools=[WEATHER], max_tokens=45).json()["choices"][0]
        assert choice["finish_reason"] == "length"
        assert "tool_calls" not in choice["message"]


def test_reasoning_goes_under_the_name_that_the_settings_say() -> None:
    for field, names in (("both", {"reasoning_content", "reasoning"}), ("reasoning", {"reasoning"})):
        with stand(ScriptPair(says("hm</think>ok")), reasoning_field=field) as served:
            message = served.post(reasoning_effort="low").json()["choices"][0]["message"]
            assert {name: message[name] for name in names} == dict.fromkeys(names, "hm")
            assert message.keys() & {"reasoning_content", "reasoning"} == names


def test_reasoning_tokens_are_those_shown_as_reasoning() -> None:
    with stand(ScriptPair(says("abcd</think>xy"))) as served:
        usage = served.post(reasoning_effort="high").json()["usage"]
        assert usage["completion_tokens"] == 7
        assert 4 <= usage["completion_tokens_details"]["reasoning_tokens"] <= 5
        assert (
            served.post(reasoning_effort="none").json()["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
        )


def test_role_and_comments_reach_the_client_before_the_first_round_ends() -> None:
    pair = ScriptPair(says("late"))
    pair.gate.clear()
    with (
        stand(pair, keep_alive=0.05) as served,
        served.http.stream("POST", "/v1/chat/completions", json=asked(stream=True)) as response,
    ):
        seen = ""
        for text in response.iter_text():
            seen += text
            if seen.count(": keep-alive\n\n") == 3:
                pair.gate.set()
        assert seen.index('"role":"assistant"') < seen.index(": keep-alive")
        assert "\r" not in seen
        assert not re.search(r"^(id|event|retry):", seen, re.MULTILINE)
        assert events(seen)[-1] == "[DONE]"


def test_frames_hold_ascii_only_since_clients_split_lines_at_more_than_newlines() -> None:
    with stand(ScriptPair(says("a\u2028b\x85c"))) as served:
        response = served.post(stream=True)
        assert response.text.isascii()
        assert folded(chunks(response))["content"] == "a\u2028b\x85c"


def test_a_stream_that_fails_says_so_and_does_not_look_finished() -> None:
    def breaks(_: str) -> list[tuple[int, ...] | Exception]:
        return [(97,), (98,), ValueError("in /secret/path")]

    with stand(ScriptPair(breaks)) as served:
        response = served.post(stream=True)
        *before, last = events(response.text)
        error = json.loads(last)["error"]
        assert (error["type"], error["code"]) == ("server_error", "generation_failed")
        assert "secret" not in response.text
        assert all(json.loads(chunk)["choices"][0]["finish_reason"] is None for chunk in before)
        whole = served.post()
        assert whole.status_code == 500
        assert whole.headers["x-should-retry"] == "false"


def test_a_fault_of_ours_in_mid_stream_is_told_without_details() -> None:
    class Faulty(TextDecoder):
        def push(self, ids: Iterable[int]) -> str:
            raise KeyError("/secret/path")

    class Tokenizer(ScriptTokenizer):
        def decoder(self) -> TextDecoder:
            return Faulty({})

    with stand(ScriptPair(says("x"), tokenizer=Tokenizer())) as served:
        response = served.post(stream=True)
        assert json.loads(events(response.text)[-1])["error"]["code"] == "internal_error"
        assert "secret" not in response.text
        assert served.post().status_code == 500
        served.wait_until(lambda: served.pair.sessions == 0)


def test_two_interleaved_streams_with_calls_do_not_mix() -> None:
    script = f"I look.</think>{OSLO}"
    with stand(ScriptPair(says(script, block=1), pace=0.002)) as served:
        body = asked(stream=True, **THINKING)
        with (
            served.http.stream("POST", "/v1/chat/completions", json=body) as one,
            served.http.stream("POST", "/v1/chat/completions", json=body) as two,
        ):
            one.read()
            two.read()
        assert folded(chunks(one)) == folded(chunks(two))
        assert folded(chunks(one))["tool_calls"] == [{"name": "get_weather", "arguments": '{"city": "Oslo"}'}]


def test_headers_come_before_the_first_token() -> None:
    pair = ScriptPair(says("x"))
    pair.gate.clear()
    with (
        stand(pair) as served,
        served.http.stream("POST", "/v1/chat/completions", json=asked(stream=True)) as response,
    ):
        assert response.status_code == 200
        pair.gate.set()
        response.read()
