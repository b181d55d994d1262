"""What a client forces an answer to be: what is refused, and what the thread is given to follow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import models.tiny
from models.decode.constraint import Grammars
from server.api.chat import schema
from server.turn import Forced
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand
from tests.server.wire import refused
from tools.grammar import AnyJson, JsonAnswer

ADD = {"type": "function", "function": {"name": "add"}}
SUB = {"type": "function", "function": {"name": "sub"}}
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}


def as_schema(schema: object, **more: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "r", "schema": schema} | more}


def strict(**properties: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": "add", "parameters": parameters, "strict": True}}


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    text = (Path(models.tiny.__file__).parent / "tokenizer.json").read_text("utf-8")
    with stand(ScriptPair(says("fine"), grammars=Grammars(text, 1024, [2, 24]))) as running:
        yield running


WRONG = [
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"tool_choice": "required", "tools": []}, "tool_choice", "invalid_value"),
    ({"tool_choice": ADD}, "tool_choice", "invalid_value"),
    ({"tool_choice": "odd", "tools": [TOOL]}, "tool_choice", "invalid_value"),
    ({"tool_choice": 5, "tools": [TOOL]}, "tool_choice", "invalid_type"),
    ({"tool_choice": {"type": "custom", "custom": {"name": "add"}}, "tools": [TOOL]}, "tool_choice.type",
     "invalid_value"),
    ({"tool_choice": {"type": "function"}, "tools": [TOOL]}, "tool_choice", "invalid_value"),
    ({"tool_choice": SUB, "tools": [TOOL]}, "tool_choice.function.name", "invalid_value"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "tools": [TOOL]},
     "tool_choice.allowed_tools.tools", "invalid_value"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "odd", "tools": [ADD]}}, "tools": [TOOL]},
     "tool_choice.allowed_tools.mode", "invalid_value"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [ADD, SUB]}},
      "tools": [TOOL]}, "tool_choice.allowed_tools.tools[1].function.name", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a", "strict": "yes"}}]}, "tools[0].function.strict",
     "invalid_type"),
    ({"tools": [strict(a=UNIQUE)]}, "tools[0].function.parameters", "invalid_value"),
    ({"tools": [SUB, strict(a={"type": "strnig"})]}, "tools[1].function.parameters", "invalid_value"),
    ({"tools": [SUB, strict(a={"type": "object", "properties": 5})], "tool_choice": "required"},
     "tools[1].function.parameters", "invalid_value"),
    ({"response_format": "text"}, "response_format", "invalid_type"),
    ({"response_format": {"type": "odd"}}, "response_format.type", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "missing_required_parameter"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "r"}}},
     "response_format.json_schema.schema", "missing_required_parameter"),
    ({"response_format": as_schema("{}")}, "response_format.json_schema.schema", "invalid_type"),
    ({"response_format": as_schema({"type": "objekt"})}, "response_format", "invalid_value"),
    ({"response_format": as_schema({"$ref": "#/$defs/none"})}, "response_format", "invalid_value"),
    ({"response_format": as_schema(UNIQUE, strict=True)}, "response_format", "invalid_value"),
    ({"response_format": as_schema(POINT, strict="yes")}, "response_format.json_schema.strict", "invalid_type"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param", "code"), WRONG, ids=lambda value: json.dumps(value)[:60])
def test_what_no_answer_can_be_is_refused_by_its_place(
    served: Stand, body: dict[str, object], param: str, code: str
) -> None:
    for streamed in (False, True):
        response = served.post(**body, stream=streamed)
        error = refused(response)
        assert (response.status_code, error["type"]) == (400, "invalid_request_error")
        assert (error["param"], error["code"]) == (param, code), error["message"]


@pytest.mark.parametrize("body", [{"response_format": as_schema(UNIQUE, strict=True)}, {"tools": [strict(a=UNIQUE)]}])
def test_a_strict_schema_is_refused_by_the_keyword_that_cannot_be_enforced(
    served: Stand, body: dict[str, object]
) -> None:
    assert "'uniqueItems'" in refused(served.post(**body))["message"]


def test_a_tool_that_is_no_function_is_refused_as_the_kind_it_is(served: Stand) -> None:
    error = refused(served.post(tools=[{"type": "custom", "custom": {"name": "x"}}]))
    assert error["param"] == "tools[0].type"
    assert "'custom'" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "schema": POINT}},
        {"response_format": as_schema(POINT)},
        {"response_format": as_schema(UNIQUE, strict=None)},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        {"tools": [TOOL], "tool_choice": "none", "response_format": {"type": "json_object"}},
        {"tools": [TOOL], "tool_choice": ADD},
        {"tools": [strict(a={"type": "string"})]},
        {
            "tools": [TOOL, SUB],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [ADD]}},
        },
    ],
    ids=lambda body: json.dumps(body)[:80],
)
def test_what_an_answer_is_held_to_reaches_the_thread(served: Stand, body: dict[str, object]) -> None:
    for streamed in (False, True):
        assert served.post(**body, stream=streamed).status_code == 200
        assert served.pair.requests[-1].grammar is not None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "auto"},
        {"tools": [strict(a={"type": "string"})], "tool_choice": "none"},
        {"tools": [TOOL], "parallel_tool_calls": False, "response_format": {"type": "text"}},
    ],
    ids=json.dumps,
)
def test_a_free_answer_has_no_grammar(served: Stand, body: dict[str, object]) -> None:
    assert served.post(**body).status_code == 200
    assert served.pair.requests[-1].grammar is None


def test_every_choice_follows_the_same_grammar(served: Stand) -> None:
    assert served.post(n=3, response_format={"type": "json_object"}).status_code == 200
    assert len({id(request.grammar) for request in served.pair.requests[-3:]}) == 1


def test_a_model_whose_vocabulary_does_not_do_refuses_by_the_parameter() -> None:
    with stand(ScriptPair(says("fine"))) as served:
        for body, param in (
            ({"response_format": {"type": "json_object"}}, "response_format"),
            ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
            ({"tools": [strict()]}, "tools"),
        ):
            error = refused(served.post(**body))
            assert (error["param"], error["code"]) == (param, "unsupported_parameter")
        assert served.post(tools=[TOOL]).status_code == 200


def test_the_turn_says_it_in_no_vendors_words() -> None:
    def forced(**body: object) -> Forced:
        return schema.turn(schema.read({"messages": [{"role": "user", "content": "a"}]} | body)).forced

    assert not forced(tools=[TOOL]).held
    assert forced(response_format={"type": "json_object"}).answer == AnyJson
    assert forced(response_format=as_schema(POINT, strict=True)).answer == JsonAnswer(POINT, strict=True)
    beside = {"type": "json_schema", "schema": POINT}
    assert forced(response_format=beside).answer == JsonAnswer(POINT, strict=False)
    named = forced(tools=[TOOL, SUB], tool_choice=ADD)
    assert (named.called, named.callable, named.places["sub"]) == (True, {"add"}, "tools[1].function.parameters")
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [SUB]}}
    assert (forced(tools=[TOOL, SUB], tool_choice=allowed).called, forced(tools=[strict()]).strict) == (True, {"add"})
