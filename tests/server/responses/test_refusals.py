"""What is refused, by name; what is ignored, said; and that nothing anybody sends is a fault of ours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.api.responses import schema
from server.api.responses.store import Store
from server.errors import Refusal
from server.verdicts import verdict
from tests.server.responses.wire import answered, post
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand
from tests.server.wire import refused

PING = {"type": "function", "name": "ping"}
USER = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(says("ok"))) as running:
        yield running


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"input": None}, "input", "invalid_value"),
        ({"input": []}, "input", "invalid_value"),
        ({"input": 3}, "input", "invalid_type"),
        ({"input": ["x"]}, "input[0]", "invalid_type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "invalid_value"),
        ({"input": [{"role": "user"}]}, "input[0].content", "missing_required_parameter"),
        ({"input": [{"role": "user", "content": None}]}, "input[0].content", "invalid_type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
            "invalid_value",
        ),
        ({"input": [USER, {"type": "custom_tool_call", "call_id": "x"}]}, "input[1].type", "invalid_value"),
        ({"input": [{"type": ["message"]}]}, "input[0].type", "invalid_type"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id", "invalid_value"),
        ({"input": [{"type": "function_call", "name": "x"}]}, "input[0].call_id", "missing_required_parameter"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
        ({"moderation": {}}, "moderation", "unsupported_parameter"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "unsupported_parameter"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "invalid_value"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", "missing_required_parameter"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_value"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode", "invalid_value"),
        ({"tools": [{"name": "x"}]}, "tools[0].type", "missing_required_parameter"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name", "invalid_value"),
        ({"tools": [PING], "tool_choice": "any"}, "tool_choice", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [PING], "tool_choice": {"type": "web_search"}}, "tool_choice.type", "invalid_value"),
        ({"tools": [PING], "tool_choice": {"type": "function"}}, "tool_choice.name", "missing_required_parameter"),
        ({"tools": [PING], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name", "invalid_value"),
        (
            {
                "tools": [PING],
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "x"}]},
            },
            "tool_choice.tools[0].name",
            "invalid_value",
        ),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"max_output_tokens": True}, "max_output_tokens", "invalid_type"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs", "invalid_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"truncation": "middle"}, "truncation", "invalid_value"),
        ({"seed": 2**63}, "seed", "invalid_value"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(served: Stand, body: dict[str, Any], param: str, code: str) -> None:
    for streams in (False, True):
        response = post(served, **body, stream=streams)
        assert response.status_code == 400
        error = refused(response)
        assert (error["param"], error["code"]) == (param, code), error["message"]
        assert error["type"] == "invalid_request_error"


def test_null_is_the_same_as_absent_and_the_body_is_an_object(served: Stand) -> None:
    names = [*schema.ResponsesRequest.model_fields.keys() - {"input", "model"}, "background", "conversation", "prompt"]
    assert answered(served, **dict.fromkeys(names))["status"] == "completed"
    assert refused(served.http.post("/v1/responses", json=[]))["type"] == "invalid_request_error"


def test_tools_that_are_no_functions_are_left_out_and_said_to_be(served: Stand) -> None:
    others: list[dict[str, Any]] = [
        {"type": "web_search"},
        PING,
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
        {"type": "namespace", "name": "mcp", "tools": [PING]},
    ]
    response = post(served, tools=others, novel=1, include=["reasoning.encrypted_content", "dreams"])
    assert response.status_code == 200
    assert response.headers["x-laguna-ignored"] == "novel, include[1], tools[0], tools[2], tools[3]"
    assert response.json()["tools"] == others
    assert served.pair.prompts[-1].startswith("tool ping\n")


def test_only_tools_that_may_be_called_are_shown(served: Stand) -> None:
    answered(served, tools=[PING], tool_choice="none")
    assert "tool ping" not in served.pair.prompts[-1]


def test_what_was_asked_is_told_again(served: Stand) -> None:
    told = answered(
        served,
        instructions="Be brief.",
        metadata={"a": "b"},
        temperature=0.5,
        max_output_tokens=50,
        parallel_tool_calls=False,
        tools=[PING],
        tool_choice="auto",
        reasoning={"effort": "low"},
        text={"verbosity": "medium"},
        truncation="auto",
        service_tier="flex",
        user="u",
    )
    assert (told["instructions"], told["metadata"], told["temperature"]) == ("Be brief.", {"a": "b"}, 0.5)
    assert (told["max_output_tokens"], told["parallel_tool_calls"], told["tool_choice"]) == (50, False, "auto")
    assert told["reasoning"] == {"effort": "low", "summary": None}
    assert told["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert (told["truncation"], told["service_tier"], told["user"]) == ("auto", "default", "u")
    assert (told["top_p"], told["store"], told["background"]) == (0.95, True, False)
    assert told["created_at"] <= told["completed_at"]


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=x", "after")],
)
def test_a_page_that_cannot_be_is_refused(served: Stand, query: str, param: str) -> None:
    id_ = answered(served)["id"]
    assert refused(served.http.get(f"/v1/responses/{id_}/input_items?{query}"))["param"] == param
    assert refused(served.http.get(f"/v1/responses/{id_}?stream=true"))["param"] == "stream"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [*schema.ResponsesRequest.model_fields, "background", "prompt"]
ITEM_FIELDS = ["type", "role", "content", "call_id", "name", "arguments", "output", "summary", "id", "status"]
KINDS = st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "item_reference", "other"])
WORDS = st.sampled_from(["user", "assistant", "a"])
ITEMS = st.lists(st.dictionaries(st.sampled_from(ITEM_FIELDS), JSON | WORDS | KINDS, max_size=6))


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5) | st.fixed_dictionaries({"input": ITEMS}))
def test_any_body_is_understood_or_refused_by_name(body: dict[str, Any]) -> None:
    refusals: list[Refusal] = []
    try:
        schema.understood(json.dumps(body).encode(), Store(1, 1))
    except Refusal as refusal:
        refusals.append(refusal)
    assert {verdict(refusal).status for refusal in refusals} <= {400}
