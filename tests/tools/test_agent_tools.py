"""Tools as coding agents and frameworks declare them, forced: every walk reads back as valid arguments."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.tools.reading import read
from tests.tools.walking import walk
from tools.grammar import Calls, grammar
from tools.laguna import fold

SAFE = 9007199254740991
TOOLS: dict[str, dict[str, Any]] = {
    "read, by opencode": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "filePath": {"description": "The path", "type": "string"},
            "offset": {"type": "integer", "minimum": -SAFE, "maximum": SAFE},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": SAFE},
        },
        "required": ["filePath"],
    },
    "todowrite, by reference": {
        "type": "object",
        "properties": {"todos": {"type": "array", "items": {"$ref": "#/$defs/Todo"}}},
        "required": ["todos"],
        "$defs": {
            "Todo": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"anyOf": [{"const": "pending"}, {"const": "completed"}]},
                },
                "required": ["content", "status"],
                "additionalProperties": False,
            }
        },
    },
    "grep, with flags for keys": {
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "-A": {"type": "number"},
            "-n": {"type": "boolean", "default": True},
            "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    "read_file, all required and nullable": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"type": ["string", "null"]},
            "start": {"type": ["number", "null"]},
            "lines": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        },
        "required": ["path", "mode", "start", "lines"],
        "additionalProperties": False,
    },
    "shell": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "timeout_ms": {"type": "number"},
            "workdir": {"type": "string"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    "search, by pydantic": {
        "title": "Search",
        "type": "object",
        "properties": {
            "query": {"title": "Query", "type": "string"},
            "since": {
                "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                "default": None,
                "title": "Since",
            },
            "where": {"$ref": "#/$defs/Where", "description": "where to look"},
            "weights": {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}},
        },
        "required": ["query", "where"],
        "$defs": {"Where": {"enum": ["title", "body"], "title": "Where", "type": "string"}},
    },
    "items, whose keys are words of templates": {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "string"}}, "keys": {"type": "string"}},
        "required": ["items", "keys"],
    },
    "tree, by zod": {
        "type": "object",
        "properties": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/properties/node"}},
                },
                "required": ["label"],
                "additionalProperties": False,
            }
        },
        "required": ["node"],
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("strict", [True, False])
def test_a_forced_call_has_the_arguments_it_declares(name: str, strict: bool) -> None:
    word, schema = name.partition(",")[0], TOOLS[name]
    made = {"type": "function", "function": {"name": word, "parameters": schema}}
    text = grammar(thinking=False, calls=Calls([made], required=True, strict=frozenset({word} if strict else ())))
    walks = [walk(text, seed, wander=10 * seed) for seed in range(6)]
    assert sum(found.ended for found in walks) >= 4
    for found in walks:
        if found.ended:
            message = fold(read([found.text], [made]))
            assert message.content is None
            assert message.calls
            for call in message.calls:
                assert call.name == word
                Draft202012Validator(schema).validate(json.loads(call.arguments))
