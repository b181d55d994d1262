"""What the template is given, and what it makes of it."""

import json
from typing import Any

import pytest

from models.tokenizer import MessageError, TemplateError, Tokenizer

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter, für <b>jede</b> Stadt",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def call(name: str, arguments: object, id_: str = "c1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text: str, id_: str = "c1") -> dict[str, str]:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_whole_tool_turn_reads_as_the_one_line_dialect(one_line: Tokenizer) -> None:
    messages = [
        {"role": "system", "content": "Be brief.\n"},
        user("Weather?"),
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Ask.",
            "tool_calls": [call("f", '{"city": "Oslo"}')],
        },
        result("7"),
    ]
    assert one_line.render(messages, [WEATHER], enable_thinking=True) == (
        "〈|EOS|〉<system>Be brief.\n\n<available_tools>\n"
        + json.dumps(WEATHER, ensure_ascii=False)
        + "\n</available_tools></system>\n<user>Weather?</user>\n"
        "<assistant><think>Ask.</think><tool_call>f<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call></assistant>\n"
        "<tool_response>7</tool_response>\n<assistant><think>"
    )


def test_a_whole_tool_turn_reads_as_the_dialect_with_newlines(with_newlines: Tokenizer) -> None:
    messages = [
        user("Weather?"),
        {
            "role": "assistant",
            "content": "",
            "reasoning": "Ask.",
            "tool_calls": [call("f", '{"city": "Oslo", "n": 3}')],
        },
        result("7"),
    ]
    assert with_newlines.render(messages) == (
        "〈|EOS|〉<user>\nWeather?\n</user>\n<assistant>\n<think>\nAsk.\n</think>\n<tool_call>f\n"
        "<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n"
        "</tool_call>\n</assistant>\n<tool_response>\n7\n</tool_response>\n<assistant>\n</think>"
    )


@pytest.mark.parametrize("role", ["system", "user", "tool", "assistant"])
def test_text_parts_are_joined_with_nothing_between(one_line: Tokenizer, role: str) -> None:
    parts = [{"type": "text", "text": "S1 "}, {"type": "text", "text": "S2"}]
    assert "S1 S2" in one_line.render([{"role": role, "content": parts}])


def test_a_refusal_part_is_text_too(one_line: Tokenizer) -> None:
    assert ">No.<" in one_line.render([{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}])


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (user([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]), "content[1]"),
        (user([{"type": "text"}]), "content[0]"),
        (user(["bare"]), "content[0]"),
        (user(7), "content"),
        ({"role": "narrator", "content": "x"}, "role"),
        ({"role": ["user"], "content": "x"}, "role"),
        ({"content": "x"}, "role"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [call("", "{}")]}, "tool_calls[0]"),
        ({"role": "assistant", "tool_calls": "f()"}, "tool_calls"),
        ({"role": "assistant", "reasoning": {"a": 1}}, "reasoning"),
    ],
)
def test_a_message_that_cannot_be_shown_is_refused_with_its_path(
    one_line: Tokenizer, message: dict[str, Any], path: str
) -> None:
    with pytest.raises(MessageError) as refusal:
        one_line.render([user("hi"), message])
    assert refusal.value.path == f"messages[1].{path}"
    assert str(refusal.value).startswith(f"messages[1].{path}: ")


def test_developer_is_the_system_header(one_line: Tokenizer) -> None:
    developer = one_line.render([{"role": "developer", "content": "be brief"}, user("hi")])
    assert developer == one_line.render([{"role": "system", "content": "be brief"}, user("hi")])
    assert "<system>be brief</system>" in developer


def test_a_system_message_in_the_middle_stays_where_it_is(one_line: Tokenizer) -> None:
    text = one_line.render([user("a"), {"role": "system", "content": "now in French"}, user("b")])
    assert "<user>a</user>\n<system>now in French</system>\n<user>b</user>" in text


@pytest.mark.parametrize(
    "header", [{"role": "system"}, {"role": "system", "content": None}, {"role": "system", "content": ""}]
)
def test_an_empty_system_message_opts_out_of_the_default_one(one_line: Tokenizer, header: dict[str, Any]) -> None:
    assert one_line.render([header, user("hi")]) == "〈|EOS|〉<user>hi</user>\n<assistant></think>"
    assert "made-up assistant" in one_line.render([user("hi")])


@pytest.mark.parametrize(
    "past",
    [
        {"reasoning": "R-TEXT", "reasoning_content": ""},
        {"reasoning": "", "reasoning_content": "R-TEXT"},
        {"reasoning": "R-TEXT"},
        {"reasoning_content": [{"type": "text", "text": "R-TEXT"}]},
        {"reasoning": "other", "reasoning_content": "R-TEXT"},
    ],
)
def test_past_reasoning_is_shown_under_whichever_name_it_comes(
    one_line: Tokenizer, with_newlines: Tokenizer, past: dict[str, Any]
) -> None:
    messages = [user("a"), {"role": "assistant", "content": "", "tool_calls": [call("f", "{}")], **past}, result("ok")]
    assert "<think>R-TEXT</think><tool_call>f" in one_line.render(messages, enable_thinking=True)
    assert "<think>\nR-TEXT\n</think>" in with_newlines.render(messages)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            '{"a": 2, "b": 3}',
            "<arg_key>a</arg_key><arg_value>2</arg_value><arg_key>b</arg_key><arg_value>3</arg_value>",
        ),
        ({"a": 2}, "<arg_key>a</arg_key><arg_value>2</arg_value>"),
        ('{"o": {"x": [1, null, true]}}', '<arg_key>o</arg_key><arg_value>{"x": [1, null, true]}</arg_value>'),
        ('{"t": "7"}', "<arg_key>t</arg_key><arg_value>7</arg_value>"),
        ('{"l": ["é"]}', '<arg_key>l</arg_key><arg_value>["é"]</arg_value>'),
        ("{}", ""),
        ("", ""),
        (" \n", ""),
        ("null", ""),
        (None, ""),
        ('{"city": "Os', '<arg_key>arguments</arg_key><arg_value>{"city": "Os</arg_value>'),
        ("[1, 2]", "<arg_key>arguments</arg_key><arg_value>[1, 2]</arg_value>"),
        ('{"x": NaN}', '<arg_key>arguments</arg_key><arg_value>{"x": NaN}</arg_value>'),
        ('{"x": 1e999}', '<arg_key>arguments</arg_key><arg_value>{"x": 1e999}</arg_value>'),
        ("7", "<arg_key>arguments</arg_key><arg_value>7</arg_value>"),
        ("[" * 100_000, f"<arg_key>arguments</arg_key><arg_value>{'[' * 100_000}</arg_value>"),
        ([1, 2], "<arg_key>arguments</arg_key><arg_value>[1, 2]</arg_value>"),
    ],
)
def test_arguments_of_a_past_call_are_shown_and_never_break_the_turn(
    one_line: Tokenizer, arguments: object, shown: str
) -> None:
    text = one_line.render(
        [user("2+3?"), {"role": "assistant", "content": None, "tool_calls": [call("add", arguments)]}]
    )
    assert f"<tool_call>add{shown}</tool_call>" in text


@pytest.mark.parametrize("name", ["items", "keys", "values", "get", "function", "name", "__class__"])
def test_an_argument_may_have_the_name_of_a_mapping_method(
    one_line: Tokenizer, with_newlines: Tokenizer, name: str
) -> None:
    messages = [user("x"), {"role": "assistant", "tool_calls": [call("f", json.dumps({name: "v"}))]}]
    assert f"<arg_key>{name}</arg_key><arg_value>v</arg_value>" in one_line.render(messages)
    assert f"<arg_key>{name}</arg_key>\n<arg_value>v</arg_value>" in with_newlines.render(messages)


def test_a_property_may_have_the_name_of_a_mapping_method(one_line: Tokenizer) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"items": {}, "keys": {}}}}}
    assert json.dumps(tool) in one_line.render([user("x")], [tool])


@pytest.mark.parametrize("calls", [[], None])
def test_an_empty_list_of_calls_is_no_call(one_line: Tokenizer, calls: object) -> None:
    text = one_line.render([user("a"), {"role": "assistant", "content": "b", "tool_calls": calls}, user("c")])
    assert "<assistant></think>b</assistant>\n<user>c</user>" in text


def test_results_are_put_in_the_order_of_their_calls(one_line: Tokenizer) -> None:
    calls = [call("f", "{}", "c1"), call("g", "{}", "c2"), call("h", "{}", "c3")]
    ask = [user("x"), {"role": "assistant", "tool_calls": calls}]
    shuffled = one_line.render([*ask, result("three", "c3"), result("one", "c1"), result("two", "c2"), user("y")])
    assert shuffled == one_line.render(
        [*ask, result("one", "c1"), result("two", "c2"), result("three", "c3"), user("y")]
    )
    assert shuffled.index(">one<") < shuffled.index(">two<") < shuffled.index(">three<")


def test_a_result_that_answers_no_call_keeps_its_place(one_line: Tokenizer) -> None:
    ask = {"role": "assistant", "tool_calls": [call("f", "{}", "c1"), call("g", "{}", "c2")]}
    nameless = {"role": "tool", "content": "stray"}
    text = one_line.render([ask, result("two", "c2"), nameless, result("one", "c1")])
    assert text.index(">one<") < text.index(">stray<") < text.index(">two<")


def test_results_of_another_turn_are_not_mixed_in(one_line: Tokenizer) -> None:
    ask = {"role": "assistant", "tool_calls": [call("f", "{}", "c1"), call("g", "{}", "c2")]}
    text = one_line.render([ask, result("b", "c2"), result("a", "c1"), ask, result("d", "c2"), result("c", "c1")])
    places = [text.index(f">{letter}<") for letter in "abcd"]
    assert places == sorted(places)


def test_keys_no_template_reads_are_left_out(one_line: Tokenizer) -> None:
    extra = {"role": "user", "content": "hi", "name": "ann", "cache_control": {"type": "ephemeral"}, "x": object()}
    assert one_line.render([extra]) == one_line.render([user("hi")])


def test_thinking_is_the_templates_default_until_the_caller_says_so(one_line: Tokenizer) -> None:
    assert one_line.render([user("hi")]).endswith("<assistant></think>")
    assert one_line.render([user("hi")], enable_thinking=False).endswith("<assistant></think>")
    assert one_line.render([user("hi")], enable_thinking=True).endswith("<assistant><think>")


def test_declaring_tools_does_not_change_how_the_turn_opens(one_line: Tokenizer) -> None:
    plain = one_line.render([user("hi")], enable_thinking=True)
    armed = one_line.render([user("hi")], [WEATHER], enable_thinking=True)
    assert plain.rpartition("<assistant>")[2] == armed.rpartition("<assistant>")[2] == "<think>"


def test_template_arguments_reach_the_template(one_line: Tokenizer) -> None:
    messages = [user("a"), {"role": "assistant", "content": "b", "reasoning": "R"}, user("c")]
    assert "R" not in one_line.render(messages).replace("〈|EOS|〉", "")
    assert "<think>R</think>b" in one_line.render(messages, preserve_thinking=True)


def test_template_arguments_cannot_take_the_servers_place(one_line: Tokenizer) -> None:
    with pytest.raises(TemplateError, match="add_generation_prompt"):
        one_line.render([user("hi")], add_generation_prompt=False)


def test_an_empty_list_of_tools_is_no_tools(one_line: Tokenizer) -> None:
    assert one_line.render([user("hi")], []) == one_line.render([user("hi")], None) == one_line.render([user("hi")])


def test_the_callers_messages_are_not_changed(one_line: Tokenizer) -> None:
    messages = [user([{"type": "text", "text": "a"}]), {"role": "assistant", "tool_calls": [call("f", '{"a": 1}')]}]
    before = json.dumps(messages)
    one_line.render(messages)
    assert json.dumps(messages) == before
