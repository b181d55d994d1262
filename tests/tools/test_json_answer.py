"""What a JSON answer may be, beside calls and after thinking."""

import pytest

from tests.tools.reading import tool
from tests.tools.walking import accepts
from tools.grammar import AnyJson, Calls, JsonAnswer, grammar

LIST = tool("ls", {})
CALL = "<tool_call>ls</tool_call>"


def test_a_json_answer_beside_tools_is_either() -> None:
    text = grammar(thinking=False, answer=JsonAnswer({"type": "object", "properties": {}}), calls=Calls([LIST]))
    assert accepts(text, "{}")
    assert accepts(text, CALL)
    assert not accepts(text, "{}" + CALL)
    assert not accepts(text, "Hello")


@pytest.mark.parametrize("thinking", [False, True])
def test_a_line_break_after_the_thinking_may_stand_before_calls_and_never_before_json(thinking: bool) -> None:
    thought, either = "hm.</think>" if thinking else "", Calls([LIST])
    for calls in (None, either):
        text = grammar(thinking=thinking, answer=AnyJson, calls=calls)
        assert accepts(text, thought + '{"a": 1}')
        assert not accepts(text, thought + '\n{"a": 1}')
    for text in (
        grammar(thinking=thinking, answer=AnyJson, calls=either),
        grammar(thinking=thinking, calls=Calls([LIST], required=True)),
    ):
        assert accepts(text, thought + CALL)
        assert accepts(text, f"{thought}\n" + CALL) == thinking


def test_calls_that_are_required_win_over_a_json_answer() -> None:
    text = grammar(thinking=False, answer=AnyJson, calls=Calls([LIST], required=True))
    assert accepts(text, CALL)
    assert not accepts(text, "{}")


def test_any_json_object_may_nest_anything() -> None:
    text = grammar(thinking=False, answer=AnyJson)
    assert accepts(text, '{"a": [1, {"b": null}], "c": "d"}')
    assert not accepts(text, "[]")
    assert not accepts(text, '"a"')


def test_objects_get_no_properties_that_nobody_named() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert not accepts(grammar(thinking=False, answer=JsonAnswer(schema)), '{"b": 1}')
    assert accepts(grammar(thinking=False, answer=JsonAnswer(schema | {"additionalProperties": True})), '{"b": 1}')
    merged = {"allOf": [schema, {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}
    assert accepts(grammar(thinking=False, answer=JsonAnswer(merged)), '{"a": 1, "b": 1}')
