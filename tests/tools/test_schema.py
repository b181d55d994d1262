"""Which types a tool's schema allows, through every keyword that tells."""

from typing import Any

import pytest

from tools.schema import Tool, declared
from tools.values import Kind

ANY = None
NUMBER = {"integer", "number"}


def kind(schema: object, **root: object) -> Kind:
    return Tool("t", {"type": "object", "properties": {"v": schema}, **root}).kind("v")


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": "STRING"}, {"string"}),
        ({"type": "number"}, NUMBER),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": "integer", "nullable": True}, {"integer", "null"}),
        ({"type": "string", "format": "date", "pattern": "."}, {"string"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "array"}, {"anyOf": [{"type": "object"}, {"const": 1}]}]}, {"array", "object", "integer"}),
        ({"allOf": [{"type": "number"}, {"type": ["integer", "string"]}]}, {"integer"}),
        ({"allOf": [{"$ref": "#/$defs/S"}, {"description": "which"}]}, {"string"}),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, ANY),
        ({"enum": ["a", "b"]}, {"string"}),
        ({"enum": [1, 2.5, None, True, [], {}]}, NUMBER | {"null", "boolean", "array", "object"}),
        ({"type": "string", "enum": [1, 2]}, {"string"}),
        ({"const": "x"}, {"string"}),
        ({"$ref": "#/$defs/S"}, {"string"}),
        ({"$ref": "#/definitions/a~1b%20c"}, {"boolean"}),
        ({"$ref": "#/$defs/S/oops"}, ANY),
        ({"$ref": "#/$defs/list/anyOf/1"}, {"integer"}),
        ({"$ref": "#/$defs/list/anyOf/²"}, ANY),
        ({"$ref": "#/$defs/list/anyOf/" + "1" * 5000}, ANY),
        ({"$ref": "#"}, {"object"}),
        ({"$ref": "https://example.org/s.json"}, ANY),
        ({"$ref": "#/$defs/Loop"}, ANY),
        ({"$ref": "#/$defs/Tree"}, {"array", "string"}),
        ({"anyOf": [{"type": "string"}, {}]}, ANY),
        ({"anyOf": []}, ANY),
        ({"type": "text"}, ANY),
        ({"type": 5}, ANY),
        ({"type": []}, ANY),
        ({"items": {"type": "object"}}, ANY),
        ({}, ANY),
        (True, ANY),
        (False, ANY),
        (None, ANY),
        ("string", ANY),
    ],
)
def test_the_types_a_schema_allows(schema: object, types: set[str] | None) -> None:
    defs = {
        "S": {"type": "string"},
        "list": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "Loop": {"$ref": "#/$defs/Loop"},
        "Tree": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "array"}, {"$ref": "#/$defs/Twig"}]},
        "Twig": {"oneOf": [{"$ref": "#/$defs/Tree"}, {"type": "string"}]},
    }
    found = kind(schema, **{"$defs": defs, "definitions": {"a/b c": {"type": "boolean"}}})
    assert found.types == types


@pytest.mark.parametrize(
    ("schema", "members"),
    [
        ({"enum": [1, "a"]}, (1, "a")),
        ({"const": None}, (None,)),
        ({"$ref": "#/$defs/E"}, (1, "a")),
        ({"allOf": [{"description": "x"}, {"$ref": "#/$defs/E"}]}, (1, "a")),
        ({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]}, (1, "a", "b")),
        ({"anyOf": [{"const": 1}, {"type": "string"}]}, None),
        ({"$ref": "#/$defs/Loop"}, None),
        ({"enum": []}, None),
    ],
)
def test_the_values_a_schema_lists(schema: object, members: tuple[object, ...] | None) -> None:
    defs = {"E": {"enum": [1, "a"]}, "Loop": {"allOf": [{"$ref": "#/$defs/Loop"}]}}
    assert kind(schema, **{"$defs": defs}).members == members


def test_arguments_are_found_through_references_and_combinations() -> None:
    root = {
        "$ref": "#/$defs/Base",
        "properties": {"own": {"type": "integer"}, "both": {"type": "integer"}},
        "anyOf": [{"properties": {"one": {"type": "array"}}, "required": ["one"]}, {"$ref": "#/$defs/Base"}],
        "required": ["own"],
        "$defs": {"Base": {"properties": {"base": {}, "both": {"type": "string"}}, "required": ["base", 5]}},
    }
    tool = Tool("t", root)
    assert tool.properties.keys() == {"own", "both", "one", "base"}
    assert tool.kind("both").types == {"integer", "string"}
    assert tool.required == {"own", "base"}


def test_an_undeclared_key_falls_to_additional_properties() -> None:
    assert Tool("t", {"additionalProperties": {"type": "integer"}}).kind("x").types == {"integer"}
    assert Tool("t", {"additionalProperties": False}).kind("x").types is ANY
    assert Tool("t", {}).kind("x").types is ANY


@pytest.mark.parametrize("parameters", [None, [], "x", 7, {"properties": None}, {"properties": [1]}, {"required": "a"}])
def test_malformed_parameters_declare_nothing(parameters: object) -> None:
    tool = Tool("t", parameters)
    assert (tool.properties, tool.required, tool.kind("x")) == ({}, frozenset(), Kind())


def test_tools_are_found_in_both_shapes() -> None:
    tools = [
        {"type": "function", "function": {"name": "nested", "parameters": {"type": "object"}}},
        {"type": "function", "name": " flat ", "parameters": {"properties": {"a": {}}}},
        {"type": "function", "function": {"name": "nested"}},
        {"type": "web_search"},
        {"function": {"name": " "}},
        "nonsense",
    ]
    found = declared(tools)
    assert found.keys() == {"nested", "flat"}
    assert found["nested"].parameters == {"type": "object"}
    assert found["flat"].properties == {"a": {}}


def test_a_property_may_have_any_name() -> None:
    properties = {name: {"type": "integer"} for name in ("items", "type", "$ref", "-A", "properties", "")}
    tool = Tool("t", {"properties": properties})
    assert all(tool.kind(name).types == {"integer"} for name in properties)


def test_deep_and_doubling_schemas_end() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    assert kind(deep).types is ANY
    for word in ("anyOf", "allOf"):
        defs: dict[str, Any] = {"d0": {"type": "string"}}
        for level in range(1, 40):
            defs[f"d{level}"] = {word: [{"$ref": f"#/$defs/d{level - 1}"}, {"$ref": f"#/$defs/d{level - 1}"}]}
        assert kind({"$ref": "#/$defs/d20"}, **{"$defs": defs}).types == {"string"}
        assert kind({"$ref": "#/$defs/d39"}, **{"$defs": defs}).types in ({"string"}, ANY)
