"""The same generation says the same in every dialect, streamed and whole, however its blocks were cut."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.dialects.saying import DIALECTS, Said, Script, Wish, messages_fragments, took
from tests.server.script import ScriptPair, ids_of
from tests.server.stand import Stand, stand
from tests.server.wire import chunks, folded

WORDS = [
    "Hello ",
    "wörld 😀",
    "\n",
    "</think>",
    "<think>",
    "<tool_call>get_weather",
    "<tool_call>ping</tool_call>",
    "<tool_call>unknown",
    "<arg_key>city</arg_key>",
    "<arg_key>days</arg_key>",
    "<arg_key>tags</arg_key>",
    "<arg_value>Oslo\n</arg_value>",
    '<arg_value>["a", {"ö": null}]</arg_value>',
    "<arg_value>3</arg_value>",
    "<arg_value>",
    "</tool_call>",
    "END",
]
CALLS = [
    "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich “😀”\n</arg_value></tool_call>",
    "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>5.0</arg_value>\n</tool_call>",
    '<tool_call>get_weather<arg_key>tags</arg_key><arg_value>["a", 1]</arg_value></tool_call>',
]
TURN = st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(CALLS)), max_size=8).map("".join)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Stand, Script]]:
    script = Script()
    with stand(ScriptPair(script)) as running:
        yield running, script


def told(served: Stand, wish: Wish, name: str) -> Said:
    """What one dialect says, which must be the same streamed and whole; and what it took adds up."""
    dialect = DIALECTS[name]
    answer = dialect.post(served, wish, stream=False).json()
    whole = dialect.whole(answer)
    assert dialect.streamed(dialect.post(served, wish, stream=True)) == whole
    completion, reasoning = took(name, answer["usage"])
    assert 0 <= reasoning <= completion <= wish.most
    assert whole.reasoning or not reasoning
    return whole


@FEW
@given(turn=TURN, sizes=SIZES, thinks=st.booleans(), most=st.one_of(st.just(500), st.integers(1, 60)))
def test_four_dialects_tell_one_turn_alike(
    served: tuple[Stand, Script], turn: str, sizes: list[int], thinks: bool, most: int
) -> None:
    running, script = served
    script.say(turn, sizes)
    wish = Wish(thinks, most)
    chat, responses, messages = (told(running, wish, name) for name in ("chat", "responses", "messages"))
    assert chat == responses
    assert [(name, json.loads(text)) for name, text in messages.calls] == [
        (name, json.loads(text)) for name, text in chat.calls
    ]
    assert (messages.reasoning, messages.text, messages.finish) == (chat.reasoning, chat.text, chat.finish)
    streamed = DIALECTS["messages"].post(running, wish, stream=True)
    assert messages_fragments(streamed) == [text for _, text in chat.calls]


def test_wherever_the_budget_cuts_a_call_streams_and_answers_of_all_dialects_tell_the_same(
    served: tuple[Stand, Script],
) -> None:
    """A stream has begun what was cut: a prefix of the arguments, which no JSON text is, so that no fold takes it."""
    running, script = served
    turn = f"Hm.</think>Look.{CALLS[1]}{CALLS[0]}"
    script.say(turn, [3])
    begun = 0
    for most in range(1, len(ids_of(turn)), 3):
        wish = Wish(thinks=True, most=most)
        chat, responses, messages = (told(running, wish, name) for name in ("chat", "responses", "messages"))
        assert chat.finish == "length"
        assert chat == responses
        assert (messages.reasoning, messages.text, messages.finish) == (chat.reasoning, chat.text, chat.finish)
        assert [json.loads(text) for _, text in messages.calls] == [json.loads(text) for _, text in chat.calls]
        streamed = folded(chunks(DIALECTS["chat"].post(running, wish, stream=True)))["tool_calls"]
        # A character that was cut is told as one that cannot be read.
        cut = [call["arguments"].rstrip("\ufffd") for call in streamed[len(chat.calls) :]]
        whole = ['{"days": 5}', '{"city": "Zürich “😀”\\n"}']
        assert [text for _, text in chat.calls] == whole[: len(chat.calls)]
        wanted = whole[len(chat.calls) :][:1]
        assert [text for text in cut if not wanted[0].startswith(text) or text == wanted[0]] == []
        begun += bool(cut)
    assert begun > 3


@FEW
@given(turn=TURN, sizes=SIZES, most=st.one_of(st.just(500), st.integers(1, 60)), stopped=st.booleans())
def test_without_anything_to_read_completions_tell_the_same_too(
    served: tuple[Stand, Script], turn: str, sizes: list[int], most: int, stopped: bool
) -> None:
    running, script = served
    script.say(turn.replace("think>", "thought>"), sizes)
    wish = Wish(most=most, stop="END" if stopped else None, tools=())
    chat, messages = (told(running, wish, name) for name in ("chat", "messages"))
    stream = chunks(running.http.post("/v1/completions", json=wish.completions() | {"stream": True}))
    (whole,) = running.http.post("/v1/completions", json=wish.completions()).json()["choices"]
    text = "".join(chunk["choices"][0]["text"] for chunk in stream)
    assert (text, stream[-1]["choices"][0]["finish_reason"]) == (whole["text"], whole["finish_reason"])
    assert chat == messages == Said("", whole["text"], (), whole["finish_reason"])
    if not stopped:
        assert told(running, wish, "responses") == chat


def test_the_property_sees_calls_thoughts_and_cuts(served: tuple[Stand, Script]) -> None:
    running, script = served
    script.say(f"Hm.</think>Look.{CALLS[0]}{CALLS[1]}Done.", [7, 2])
    whole = told(running, Wish(thinks=True), "chat")
    assert (whole.reasoning, whole.text, whole.finish) == ("Hm.", "Look.Done.", "tool_calls")
    assert whole.calls == (("get_weather", '{"city": "Zürich “😀”\\n"}'), ("get_weather", '{"days": 5}'))
    cut = told(running, Wish(thinks=True, most=60), "messages")
    assert (cut.finish, cut.calls) == ("length", ())
    assert cut.text.startswith("Look.<tool_call>get_weather")
