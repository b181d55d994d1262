"""What the reader gives out while the text still arrives, and what it waits with."""

import json
import logging

import pytest

from tests.tools.reading import tool
from tools.laguna import (
    Call,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Message,
    Piece,
    Reader,
    ReaderFinished,
    Reasoning,
    fold,
    thinking_open,
)

TOOLS = [
    tool("write", {"path": {"type": "string"}, "mode": {"type": "integer"}, "note": {"type": ["string", "null"]}}),
    tool("free", {"any": {}, "list": {"type": "array"}}),
]
VALUE = "<tool_call>write<arg_key>path</arg_key><arg_value>"
CALL = VALUE + "a</arg_value></tool_call>"


def steps(*chunks: str, thinking: bool = False) -> list[list[Piece]]:
    reader = Reader(TOOLS, thinking)
    return [reader.push(chunk) for chunk in chunks]


def test_a_string_streams_as_it_is_written() -> None:
    assert steps(VALUE, "line 1\n", 'li"ne', "</arg_value>", "</tool_call>") == [
        [],
        [CallStart(0, "write"), CallArguments(0, '{"path": "line 1\\n')],
        [CallArguments(0, 'li\\"ne')],
        [],
        [CallArguments(0, '"}'), CallEnd(0)],
    ]


def test_a_number_waits_until_it_is_whole_and_a_string_after_it_streams() -> None:
    number = "<tool_call>write<arg_key>mode</arg_key><arg_value>4"
    assert steps(number, "20</arg_value><arg_key>path", "</arg_key><arg_value>x") == [
        [],
        [],
        [CallStart(0, "write"), CallArguments(0, '{"mode": 420, "path": "x')],
    ]


def test_only_what_may_be_the_closing_tag_is_held_back() -> None:
    assert steps(VALUE + "if a <", " b </arg_value", "> c</arg", "</") == [
        [CallStart(0, "write"), CallArguments(0, '{"path": "if a ')],
        [CallArguments(0, "< b ")],
        [CallArguments(0, "</arg_value> c")],
        [CallArguments(0, "</arg")],
    ]


def test_a_string_that_may_be_null_waits_only_while_it_reads_null() -> None:
    opener = "<tool_call>write<arg_key>note</arg_key><arg_value>nu"
    assert steps(opener, "ll", "s") == [[], [], [CallStart(0, "write"), CallArguments(0, '{"note": "nulls')]]


def test_a_value_of_no_declared_type_streams_unless_it_may_be_an_object() -> None:
    opener = "<tool_call>free<arg_key>any</arg_key><arg_value>"
    assert steps(opener + " \n", "a", "b")[1:] == [
        [CallStart(0, "free"), CallArguments(0, '{"any": " \\na')],
        [CallArguments(0, "b")],
    ]
    assert steps(opener, "{", '"a": 1}', "</arg_value></tool_call>") == [
        [],
        [],
        [],
        [CallStart(0, "free"), CallArguments(0, '{"any": {"a": 1}}'), CallEnd(0)],
    ]


def test_a_call_to_an_undeclared_name_is_given_out_when_it_is_whole() -> None:
    assert steps("<tool_call>other<arg_key>a</arg_key><arg_value>text", "</arg_value></tool_call>") == [
        [],
        [CallStart(0, "other"), CallArguments(0, '{"a": "text"}'), CallEnd(0)],
    ]


def test_json_is_passed_on_as_it_was_spelled() -> None:
    text = '<tool_call>free<arg_key>list</arg_key><arg_value> [1.10, 1e2,\n"\\u00e9"]</arg_value></tool_call>'
    assert fold(steps(text)[0]).calls == (Call("free", '{"list": [1.10, 1e2,\n"\\u00e9"]}'),)


def test_content_streams_at_once_up_to_what_may_be_a_tag() -> None:
    assert steps("if a < b: <", "div> </tool_", "x") == [
        [Content("if a < b: ")],
        [Content("<div> ")],
        [Content("</tool_x")],
    ]


def test_prose_about_the_dialect_is_not_held_to_the_end() -> None:
    assert steps("Say <tool_call>", "` to", " call <tool_call>f<arg_key>a</arg_key>...")[1:] == [
        [Content("<tool_call>` to")],
        [Content(" call <tool_call>f<arg_key>a</arg_key>...")],
    ]


def test_a_name_or_key_without_end_is_waited_for_only_so_long() -> None:
    assert steps("<tool_call>" + "a" * 400) == [[Content("<tool_call>" + "a" * 400)]]
    key = "<tool_call>write<arg_key>" + "long " * 80
    assert steps(key) == [[Content(key)]]


def test_white_space_waits_for_content_and_is_shown_if_there_is_no_call() -> None:
    reader = Reader(TOOLS, False)
    assert reader.push(" \n") == []
    assert reader.finish("stop") == [Content(" \n")]


def test_a_call_inside_thinking_is_held_until_what_follows_decides() -> None:
    held = steps("Hm. " + CALL, "\n", "No.", thinking=True)
    assert held == [[Reasoning("Hm. ")], [], [Reasoning(CALL + "\nNo.")]]
    reader = Reader(TOOLS, True)
    reader.push("Hm. " + CALL)
    assert reader.finish("stop") == [CallStart(0, "write"), CallArguments(0, '{"path": "a"}'), CallEnd(0)]


def test_a_call_that_breaks_after_its_string_began_never_ends_and_its_text_is_shown() -> None:
    broken = VALUE + "a</arg_value><arg_key>mode<arg_key>x"
    reader = Reader(TOOLS, False)
    pieces = [*reader.push(broken), *reader.push(CALL), *reader.finish("stop")]
    assert CallStart(0, "write") in pieces
    assert CallEnd(0) not in pieces
    assert fold(pieces) == Message(None, broken, (Call("write", '{"path": "a"}'),))
    assert CallEnd(1) in pieces


def test_text_of_a_broken_call_obeys_the_marks_of_a_turn() -> None:
    reader = Reader(TOOLS, False)
    pieces = [*reader.push(VALUE + "a</think>b</assistant>c"), *reader.finish("stop")]
    assert fold(pieces).content == VALUE + "ab"
    assert fold(pieces).calls == ()


def test_a_turn_that_ends_after_a_value_completes_only_declared_and_satisfied_calls() -> None:
    tools = [tool("two", {"a": {"type": "string"}, "b": {"type": "string"}}, required=["a", "b"])]
    one = "<tool_call>two<arg_key>a</arg_key><arg_value>1</arg_value>"
    both = one + "<arg_key>b</arg_key><arg_value>2</arg_value>"
    for text, calls in [(one, 0), (both, 1), (both.replace("two", "other"), 0), ("<tool_call>two", 0)]:
        reader = Reader(tools, False)
        pieces = [*reader.push(text), *reader.finish("stop")]
        assert len(fold(pieces).calls) == calls, text
        assert calls or fold(pieces).content == text


def test_a_reader_reads_one_turn() -> None:
    reader = Reader([], False)
    assert reader.push("a") == [Content("a")]
    assert reader.finish("stop") == []
    assert reader.finish("stop") == []
    with pytest.raises(ReaderFinished, match="one turn only"):
        reader.push("b")


def test_readers_share_nothing() -> None:
    first, second = Reader(TOOLS, False), Reader(TOOLS, False)
    first.push(VALUE)
    assert second.push("x") == [Content("x")]
    assert first.push("x") == [CallStart(0, "write"), CallArguments(0, '{"path": "x')]


def test_what_could_not_be_read_as_a_call_is_logged_once_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(TOOLS, False)
    reader.push("<tool_call> </tool_call><tool_call>x y</tool_call>")
    with caplog.at_level(logging.WARNING, logger="tools.laguna"):
        reader.finish("stop")
    assert [record.getMessage() for record in caplog.records] == [
        "calls of a turn: 2 stayed text, 0 name undeclared tools"
    ]


def test_calls_to_undeclared_names_are_logged_once_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(TOOLS, False)
    reader.push("<tool_call>other</tool_call><tool_call>third</tool_call>")
    with caplog.at_level(logging.WARNING, logger="tools.laguna"):
        reader.finish("stop")
    assert [record.getMessage() for record in caplog.records] == [
        "calls of a turn: 0 stayed text, 2 name undeclared tools"
    ]


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [
        ("<user>hi</user>\n<assistant><think>", True),
        ("<user>hi</user>\n<assistant>\n<think>", True),
        ("<user>hi</user>\n<assistant></think>", False),
        ("<user>what does </think> mean?</user>\n<assistant><think>", True),
        ("<assistant><think>R</think>A</assistant>\n<assistant></think>", False),
        ("<assistant><think>R</think>A", False),
        ("<user>hi <think></user>", False),
        ("<assistant>", False),
    ],
)
def test_thinking_is_read_off_the_end_of_the_prompt(prompt: str, is_open: bool) -> None:
    assert thinking_open(prompt) is is_open


def test_a_declared_name_may_be_spelled_in_any_way() -> None:
    reader = Reader([tool("my tool {1}", {"a b": {"type": "integer"}})], False)
    pieces = reader.push("<tool_call>my tool {1}\n<arg_key>a b</arg_key>\n<arg_value>1</arg_value>\n</tool_call>")
    assert fold(pieces).calls == (Call("my tool {1}", '{"a b": 1}'),)


def test_of_names_that_begin_alike_the_one_with_the_key_is_meant() -> None:
    tools = [tool("get", {"weather_at": {"type": "string"}}), tool("get_weather", {"city": {"type": "string"}})]
    for text, name in [("get_weathercity", "get_weather"), ("get weather_at", "get")]:
        pieces = Reader(tools, False).push(f"<tool_call>{text}</arg_key><arg_value>x</arg_value></tool_call>")
        assert [call.name for call in fold(pieces).calls] == [name]


def test_tools_that_are_not_functions_declare_nothing() -> None:
    odd: list[object] = [None, 3, {"type": "web_search"}, {"function": {"name": 5}}, {"function": {"name": "ok"}}]
    pieces = Reader(odd, False).push("<tool_call>ok<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>")
    assert [json.loads(call.arguments) for call in fold(pieces).calls] == [{"a": "1"}]
