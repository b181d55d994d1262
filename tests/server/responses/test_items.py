"""The items of a request: which conversation they make, and what makes none."""

import json
from typing import Any

import pytest

from server.api import parts, wire
from server.api.responses import items, schema
from server.api.responses.store import Store
from server.api.sealing import sealed
from server.errors import InvalidValue
from server.turn import Turn
from tests.counted import counted


def turn_of(**asked: object) -> Turn:
    return schema.understood(json.dumps(asked).encode(), Store(0, 0)).turn


def messages_of(*items: dict[str, Any], **more: object) -> list[dict[str, Any]]:
    return [dict(message) for message in turn_of(input=list(items), **more).messages]


def said(role: str, content: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def call(id_: str, name: str = "add", arguments: str = "{}", **more: object) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments} | more


def output(id_: str, value: object = "3") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": value}


def thought(**parts: object) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": []} | parts


def asked(id_: str, name: str = "add", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def told(id_: str, content: str = "3") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content}


USER = said("user", "hi")
SPOKEN = {"role": "user", "content": "hi"}


def test_a_text_is_what_the_user_says_and_instructions_come_first() -> None:
    assert turn_of(input="hi", instructions="Be brief.").messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    )


def test_messages_are_texts_in_parts_of_every_role() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages_of(
        said("developer", parts),
        {"role": "user", "content": "x"},
        said("assistant", [{"type": "output_text", "text": "y"}, {"type": "refusal", "refusal": "z"}]),
        USER,
    ) == [
        {"role": "developer", "content": "ab"},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "yz"},
        SPOKEN,
    ]


def test_what_one_answer_thought_said_and_called_is_one_message() -> None:
    items = [
        thought(content=[{"type": "reasoning_text", "text": "Hm."}]),
        said("assistant", "On it."),
        call("a"),
        said("assistant", "And"),
        call("b"),
    ]
    assert messages_of(USER, *items, output("b", "4"), output("a")) == [
        SPOKEN,
        {
            "role": "assistant",
            "content": "On it.And",
            "reasoning_content": "Hm.",
            "tool_calls": [asked("a"), asked("b")],
        },
        told("a"),
        told("b", "4"),
    ]


def test_answers_that_follow_each_other_stay_apart() -> None:
    items = [call("a"), output("a"), call("b"), output("b"), said("assistant", "one"), said("assistant", "two")]
    mind = thought(content=[{"type": "reasoning_text", "text": "Hm."}])
    assert messages_of(USER, *items, mind, said("assistant", "three")) == [
        SPOKEN,
        {"role": "assistant", "content": "", "tool_calls": [asked("a")]},
        told("a"),
        {"role": "assistant", "content": "", "tool_calls": [asked("b")]},
        told("b"),
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "assistant", "content": "three", "reasoning_content": "Hm."},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        {"content": [{"type": "reasoning_text", "text": "Hm."}], "summary": [{"type": "summary_text", "text": "h"}]},
        {"encrypted_content": sealed("Hm."), "summary": [{"type": "summary_text", "text": "h"}]},
        {"encrypted_content": "of another server", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"content": None, "encrypted_content": None, "summary": [{"text": "H"}, {"text": "m."}]},
    ],
    ids=["content", "sealed", "summary", "summaries"],
)
def test_the_most_exact_of_a_thoughts_texts_is_shown(parts: dict[str, Any]) -> None:
    (assistant,) = messages_of(USER, thought(**parts), said("assistant", "x"), USER)[1:2]
    assert assistant == {"role": "assistant", "content": "x", "reasoning_content": "Hm."}


def test_an_output_is_shown_after_its_call_wherever_it_stands() -> None:
    assert messages_of(USER, call("a"), said("user", "wait"), output("a", [{"type": "input_text", "text": "7"}])) == [
        SPOKEN,
        {"role": "assistant", "content": "", "tool_calls": [asked("a")]},
        told("a", "7"),
        {"role": "user", "content": "wait"},
    ]


def test_calls_that_are_numbered_anew_in_each_turn_have_their_own_outputs() -> None:
    items = [call("1"), output("1", "x"), said("user", "more"), call("1"), output("1", "y")]
    assert [message["content"] for message in messages_of(USER, *items)] == ["hi", "", "x", "more", "", "y"]


def test_a_call_that_was_cut_is_left_out_unless_it_was_answered() -> None:
    cut = call("a", arguments='{"x": ', status="incomplete")
    assert messages_of(USER, cut, said("assistant", "<tool_call>")) == [
        SPOKEN,
        {"role": "assistant", "content": "<tool_call>"},
    ]
    assert messages_of(USER, cut, output("a", "not run"))[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [asked("a", arguments='{"x": ')]},
        told("a", "not run"),
    ]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([output("a")], "No tool call found for function call output with call_id a."),
        ([output("a"), call("a")], "No tool call found for function call output with call_id a."),
        ([call("a"), output("a"), output("a")], "No tool call found for function call output with call_id a."),
        ([call("a"), call("b"), output("b")], "No tool output found for function call a."),
    ],
)
def test_calls_and_outputs_come_in_pairs(items: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        turn_of(input=items)
    assert (refusal.value.message, refusal.value.param) == (message, "input")


def test_many_items_are_read_in_linear_work() -> None:
    with counted(items, schema, parts, wire) as work:
        marks = [work.units]
        for count in (250, 2000):
            pairs = [item for number in range(count) for item in (call(f"c{number}"), output(f"c{number}"))]
            assert len(turn_of(input=[USER, *pairs]).messages) == 2 * count + 1
            marks.append(work.units)
    # Eight times the items; in quadratic work it were 64 times as much.
    assert marks[2] - marks[1] < 10 * (marks[1] - marks[0])
