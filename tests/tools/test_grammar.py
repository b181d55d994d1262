"""What grammars let through is what the reader reads back as valid, and what they refuse is refused by name."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.tools.reading import read, tool
from tests.tools.walking import accepts, matcher, walk
from tools.grammar import Calls, JsonAnswer, SchemaError, UnsupportedKeyword, grammar
from tools.laguna import fold

WEATHER = tool("get_weather", {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}, ["city"])
LIST = tool("ls", {})
EDIT = tool(
    "edit",
    {
        "filePath": {"type": "string", "description": "absolute"},
        "old": {"type": "string"},
        "replaceAll": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991},
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"content": {"type": "string"}, "status": {"enum": ["pending", "done"]}},
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        },
    },
    ["filePath", "old"],
)
LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "enum": ["a", "b c", "null", "1"]},
    {"enum": ["x", 1, 2.5, True, None, {"k": [1]}]},
    {"const": "only"},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": "^[a-z]{2}-\\d+$"},
    {"type": "string", "pattern": "x/y", "maxLength": 9},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": -3, "maximum": 40},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": ["integer", "null"]},
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "object", "properties": {"q": {"type": "integer"}}}]},
    {"anyOf": [{"enum": ["one", "two"]}, {"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"allOf": [{"$ref": "#/$defs/Place"}], "description": "where"},
    {"$ref": "#/$defs/Place"},
    {"$ref": "#/$defs/Tree"},
    {"$ref": "#/$defs/Word"},
    {"type": "array", "items": {"$ref": "#/$defs/Place"}, "minItems": 1, "maxItems": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {},
]
DEFS = {
    "Place": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["x"],
    },
    "Tree": {"type": "object", "properties": {"leaf": {"type": "boolean"}, "next": {"$ref": "#/$defs/Tree"}}},
    "Word": {"type": "string", "enum": ["yes", "no"]},
}


def declared(*leaves: dict[str, Any], required: int, **more: object) -> dict[str, Any]:
    made = tool("f", {f"k{i}": leaf for i, leaf in enumerate(leaves)}, [f"k{i}" for i in range(required)])
    made["function"]["parameters"] |= {"$defs": DEFS} | more
    return made


def call(name: str, **arguments: str) -> str:
    pairs = "".join(f"<arg_key>{k}</arg_key><arg_value>{v}</arg_value>" for k, v in arguments.items())
    return f"<tool_call>{name}{pairs}</tool_call>"


def valid(text: str, tools: list[dict[str, Any]], *, thinking: bool = False) -> None:
    """Every call that the reader finds in `text`, and nothing else, is valid under its tool's schema."""
    message = fold(read([text], tools, thinking=thinking))
    assert message.calls, text
    schemas = {made["function"]["name"]: made["function"]["parameters"] for made in tools}
    for found in message.calls:
        Draft202012Validator(schemas[found.name]).validate(json.loads(found.arguments))


@pytest.mark.parametrize("leaf", LEAVES, ids=json.dumps)
@pytest.mark.parametrize("strict", [True, False])
def test_what_a_forced_call_may_be_reads_back_as_valid(leaf: dict[str, Any], strict: bool) -> None:
    made = declared(leaf, {"type": "string"}, required=1)
    text = grammar(thinking=False, calls=Calls([made], required=True, strict=frozenset({"f"} if strict else ())))
    walks = [walk(text, seed, wander=seed % 40) for seed in range(8)]
    assert sum(found.ended for found in walks) >= 6
    for found in walks:
        if found.ended:
            assert fold(read([found.text], [made])).content is None
            valid(found.text, [made])


@settings(max_examples=30, derandomize=True)
@given(st.lists(st.sampled_from(LEAVES), max_size=5), st.data(), st.integers(0, 10**6), st.booleans())
def test_any_tool_made_of_such_arguments_is_called_validly(
    leaves: list[dict[str, Any]], data: st.DataObject, seed: int, thinking: bool
) -> None:
    made = declared(*leaves, required=data.draw(st.integers(0, len(leaves))))
    found = walk(grammar(thinking=thinking, calls=Calls([made, LIST], required=True)), seed)
    if found.ended:
        valid(found.text, [made, LIST], thinking=thinking)


@settings(max_examples=30, derandomize=True)
@given(st.lists(st.sampled_from(LEAVES), max_size=4), st.integers(0, 10**6))
def test_a_json_answer_is_valid_under_its_schema(leaves: list[dict[str, Any]], seed: int) -> None:
    schema = declared(*leaves, required=len(leaves))["function"]["parameters"]
    found = walk(grammar(thinking=False, answer=JsonAnswer(schema, strict=True)), seed)
    if found.ended:
        Draft202012Validator(schema).validate(json.loads(found.text))


@pytest.mark.parametrize(
    "text",
    [
        call("get_weather", city="Oslo"),
        call("get_weather", city="Os<lo\n</b>", unit="celsius"),
        call("get_weather", city='{"a": 1}') + call("ls"),
        call("edit", filePath="/a b", old="    if x:\n\t'q'\n", replaceAll="true", limit="7"),
        call("edit", filePath="", old="", todos='[{"content": "a\\"b", "status": "done"}]'),
        (
            "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>\n"
            "<tool_call>ls\n</tool_call>\n"
        ),
    ],
)
def test_both_spellings_of_the_template_are_let_through(text: str) -> None:
    tools = [WEATHER, LIST, EDIT]
    assert accepts(grammar(thinking=False, calls=Calls(tools, required=True)), text)
    assert accepts(grammar(thinking=True, calls=Calls(tools, required=True)), f"hm, {{\n</think>{text}")
    valid(text, tools)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sure!",
        call("nope"),
        call("get_weather"),
        call("get_weather", unit="celsius"),
        call("get_weather", city="Oslo", unit="kelvin"),
        call("get_weather", unit="celsius", city="Oslo"),
        call("get_weather", city="Oslo", extra="1"),
        (
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>"
            "<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>"
        ),
        call("ls") + "And now?",
    ],
)
def test_everything_but_whole_calls_is_stopped(text: str) -> None:
    assert not accepts(grammar(thinking=False, calls=Calls([WEATHER, LIST], required=True)), text)


def test_one_call_alone_where_only_one_is_wanted() -> None:
    one = grammar(thinking=False, calls=Calls([LIST], required=True, parallel=False))
    assert accepts(one, call("ls"))
    assert not accepts(one, call("ls") + call("ls"))
    free = grammar(thinking=False, calls=Calls([LIST], parallel=False))
    assert accepts(free, "So: " + call("ls"))
    assert accepts(free, "So.")
    assert not accepts(free, call("ls") + call("ls"))


def test_strict_tools_hold_calls_within_free_text() -> None:
    text = grammar(thinking=False, calls=Calls([WEATHER, EDIT], strict=frozenset({"get_weather"})))
    assert accepts(text, "No call at all.")
    assert accepts(text, "First " + call("get_weather", city="Oslo") + " then " + call("edit", anything="x"))
    assert not accepts(text, call("get_weather", city="Oslo", unit="kelvin"))
    assert not accepts(text, call("get_weather_later", city="Oslo"))


def test_a_tool_of_free_keys_takes_any_but_the_named_twice() -> None:
    made = declared({"type": "boolean"}, required=0, additionalProperties={"type": "integer"})
    text = grammar(thinking=False, calls=Calls([made], required=True))
    assert accepts(text, call("f", k0="true", **{"Accept-Language": "3", "-n": "4"}))
    assert not accepts(text, call("f", other="x"))
    assert not accepts(text, call("f", k0="5"))


def test_each_branch_of_a_union_of_argument_sets_is_whole() -> None:
    branches = [
        {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
        {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]},
    ]
    made = tool("u", {})
    made["function"]["parameters"] = {"type": "object", "oneOf": branches}
    text = grammar(thinking=False, calls=Calls([made], required=True))
    assert accepts(text, call("u", kind="a", x="1"))
    assert accepts(text, call("u", kind="b"))
    assert not accepts(text, call("u", kind="a", y="1"))


def test_references_into_the_arguments_themselves_are_followed() -> None:
    made = declared(
        {"type": "object", "properties": {"a": {"$ref": "#/properties/k1"}}}, {"type": "integer"}, required=1
    )
    text = grammar(thinking=False, calls=Calls([made], required=True))
    assert accepts(text, call("f", k0='{"a": 3}'))
    assert not accepts(text, call("f", k0='{"a": "3"}'))


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"properties": []}, "odd", {"type": "objekt"}])
def test_a_tool_without_declared_arguments_takes_none(parameters: object) -> None:
    made = {"type": "function", "function": {"name": "go", "parameters": parameters}}
    text = grammar(thinking=False, calls=Calls([made], required=True))
    assert accepts(text, call("go"))
    assert not accepts(text, call("go", a="b"))


@pytest.mark.parametrize(
    ("keyword", "leaf"),
    [
        ("not", {"not": {"type": "string"}}),
        ("uniqueItems", {"type": "array", "uniqueItems": True}),
        ("if", {"type": "object", "properties": {"a": {"if": {}, "then": {}}}}),
        ("pattern", {"type": "string", "pattern": "(?=a)b"}),
        ("pattern", {"type": "array", "items": {"type": "string", "pattern": "a\\b"}}),
        ("format", {"type": "string", "format": "banana"}),
        ("propertyNames", {"type": "object", "propertyNames": {"maxLength": 3}}),
    ],
)
def test_a_strict_schema_that_cannot_be_enforced_is_refused_by_its_keyword(keyword: str, leaf: dict[str, Any]) -> None:
    made = declared(leaf, required=1)
    with pytest.raises(UnsupportedKeyword, match=f"'{keyword}'"):
        grammar(thinking=False, calls=Calls([made], required=True, strict=frozenset({"f"})))
    lenient = grammar(thinking=False, calls=Calls([made], required=True))
    assert not matcher(lenient).is_error()
    if "array" in str(leaf) or "object" in str(leaf):
        with pytest.raises(UnsupportedKeyword, match=f"'{keyword}'"):
            grammar(thinking=False, answer=JsonAnswer(leaf, strict=True))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "minProperties": 1},
        {"anyOf": [{"properties": {}}]},
        {"type": "object", "allOf": [{"not": {}}]},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "strng"}}},
    ],
)
def test_a_strict_tool_is_an_object_of_arguments_and_no_more(schema: dict[str, Any]) -> None:
    made = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with pytest.raises(SchemaError):
        grammar(thinking=False, calls=Calls([made], strict=frozenset({"f"})))


def test_schemas_without_end_are_refused_at_once() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(3000):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(SchemaError, match="deep"):
        grammar(thinking=False, answer=JsonAnswer(deep))
    many = {"enum": [f"value {i} of very many" for i in range(50_000)]}
    with pytest.raises(SchemaError, match="too large"):
        grammar(thinking=False, answer=JsonAnswer(many))
    knot = {"anyOf": [{"$ref": "#/$defs/K"}] * 9 + [{"type": "string"}]}
    made = declared({"$ref": "#/$defs/K"}, required=1)
    made["function"]["parameters"]["$defs"] = {"K": knot}
    assert accepts(grammar(thinking=False, calls=Calls([made], required=True)), call("f", k0="x"))


def test_text_that_spells_grammar_is_only_text() -> None:
    odd = 'a"b\\ c\n%json {} | /x/ é〈 start: "'
    made = declared({"enum": [odd, "</arg_value>"]}, {"type": "string", "pattern": '^/\\*\n\\/"$'}, required=1)
    text = grammar(thinking=False, calls=Calls([made], required=True))
    assert accepts(text, call("f", k0=odd, k1='/*\n/"'))
    assert not accepts(text, call("f", k0="</arg_value>"))
    valid(call("f", k0=odd, k1='/*\n/"'), [made])
