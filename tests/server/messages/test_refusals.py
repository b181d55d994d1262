"""What Anthropic's dialect refuses, by which status and type, and that its message names the parameter."""

from collections.abc import Iterator
from typing import Any

import pytest

from server.api.messages import parameters
from server.api.messages.schema import CountRequest, MessagesRequest
from server.api.parameters import IGNORED
from server.engine import Engine
from server.errors import ModelLoading
from tests.server.messages.wire import HI, asked, post, refused
from tests.server.script import ScriptPair, ScriptTokenizer, forever, says
from tests.server.stand import Stand, stand

ASK = HI[0]
TOOL = {"name": "add", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "5"}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(says("fine"), context_length=300), max_body_mib=1) as running:
        yield running


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


def assistant(*content: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(content)}


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": "9"}, "max_tokens"),
    ({"max_tokens": 10**30}, "`max_tokens`"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [1]}, "messages[0]"),
    ({"messages": [{}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [user({"type": "text"})]}, "messages[0].content[0].text"),
    ({"messages": [user({"text": "x"})]}, "messages[0].content[0].type"),
    ({"messages": [user(text("a"), {"type": "image", "source": {}})]}, "messages[0].content[1].type"),
    ({"messages": [user({"type": "document", "source": {}})]}, "messages[0].content[0].type"),
    ({"messages": [ASK, assistant(USE), user(RESULT | {"content": [{"type": "image"}]})]},
     "messages[2].content[0].content[0].type"),
    ({"messages": [user(USE)]}, "messages[0].content[0].type"),
    ({"messages": [ASK, assistant(RESULT), ASK]}, "messages[1].content[0].type"),
    ({"messages": [{"role": "system", "content": [RESULT]}, ASK]}, "messages[0].content[0].type"),
    ({"messages": [ASK, assistant(USE | {"id": None}), user(RESULT)]}, "messages[1].content[0].id"),
    ({"messages": [ASK, assistant(USE | {"name": ""}), user(RESULT)]}, "messages[1].content[0].name"),
    ({"messages": [ASK, assistant(USE | {"input": "{}"}), user(RESULT)]}, "messages[1].content[0].input"),
    ({"messages": [ASK, assistant({"type": "thinking"}), ASK]}, "messages[1].content[0].thinking"),
    ({"messages": [ASK, assistant(USE), user({"type": "tool_result"})]}, "messages[2].content[0].tool_use_id"),
    ({"messages": [ASK, assistant(USE), ASK]}, "`tool_result` blocks immediately after: t1"),
    ({"messages": [ASK, assistant(USE), ASK, user(RESULT), assistant(USE), ASK]}, "'messages[4].content[0]'"),
    ({"messages": [user(RESULT)]}, "unexpected `tool_use_id` found in `tool_result` blocks: t1"),
    ({"messages": [ASK, assistant(USE, USE), user(RESULT)]}, "`tool_use` ids must be unique"),
    ({"messages": [ASK, assistant(USE), user(RESULT, RESULT)]}, "'messages[2].content[1]'"),
    ({"messages": [ASK, assistant(USE), user(RESULT), assistant(text("x")), user(RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [ASK, assistant(text("Once"))]}, "prefill"),
    ({"model": 5}, "model"),
    ({"model": "x" * 257}, "model"),
    ({"system": 5}, "system"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": -1}, "top_k"),
    ({"top_k": 1.5}, "top_k"),
    ({"seed": 2**63}, "seed"),
    ({"speculation": "maybe"}, "speculation"),
    ({"stream": "yes"}, "stream"),
    ({"service_tier": "gold"}, "service_tier"),
    ({"stop_sequences": "x"}, "stop_sequences"),
    ({"stop_sequences": ["a", ""]}, "stop_sequences[1]"),
    ({"stop_sequences": ["a"] * 65}, "stop_sequences"),
    ({"stop_sequences": ["a" * 1025]}, "stop_sequences[0]"),
    ({"thinking": {"type": "sometimes"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 200}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "budget_tokens": 20}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "display": "loud"}}, "thinking.display"),
    ({"tools": {}}, "tools"),
    ({"tools": [5]}, "tools[0]"),
    ({"tools": [TOOL, {"name": "x"}]}, "tools[1].input_schema"),
    ({"tools": [TOOL | {"name": "a b"}]}, "tools[0].name"),
    ({"tools": [TOOL | {"input_schema": "x"}]}, "tools[0].input_schema"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({"tools": [TOOL | {"type": 5}]}, "tools[0].type"),
    ({"tools": [TOOL, SEARCH, TOOL]}, "tools[2].name"),
    ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "tools[0].type"),
    ({"tool_choice": {"type": "any", "name": "add"}, "tools": [TOOL]}, "tool_choice.name"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"tool_choice": {"type": "auto"}}, "tool_choice"),
    ({"tool_choice": {"type": "required"}, "tools": [TOOL]}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool"}, "tools": [TOOL]}, "tool_choice.name"),
    ({"tool_choice": {"type": "tool", "name": "sub"}, "tools": [TOOL]}, "'sub'"),
    ({"tool_choice": {"type": "tool", "name": "web_search"}, "tools": [SEARCH]}, "'web_search'"),
    ({"tool_choice": {"type": "any"}, "tools": [SEARCH]}, "tool_choice"),
    ({"output_config": {"effort": "some"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"output_config": {"format": {"type": "text"}}}, "output_config.format.type"),
    *(({name: {"a": 1}}, f"'{name}' is not supported") for name in parameters.ONLY),
]  # fmt: skip


@pytest.mark.parametrize(("body", "named"), WRONG, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_wrong_is_named(served: Stand, body: dict[str, Any], named: str, streamed: bool) -> None:
    response = post(served, **{"stream": streamed} | body)
    error = refused(response)
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert named in error["message"]


def test_a_count_refuses_what_an_answer_refuses_in_the_conversation(served: Stand) -> None:
    for body, named in WRONG:
        if body.keys() <= CountRequest.model_fields.keys() and "budget" not in named:
            response = served.http.post("/v1/messages/count_tokens?beta=true", json={"messages": HI} | body)
            assert response.status_code == 400
            assert named in refused(response)["message"]


def test_null_is_absent(served: Stand) -> None:
    names = [*parameters.ONLY, *parameters.WITHOUT_EFFECT, *MessagesRequest.model_fields]
    absent = dict.fromkeys(name for name in names if name not in ("messages", "max_tokens"))
    response = post(served, **absent)
    assert response.json()["content"] == [text("fine")]
    assert IGNORED not in response.headers


def test_what_has_no_effect_is_taken_and_what_nobody_knows_is_named(served: Stand) -> None:
    silent = dict.fromkeys(parameters.WITHOUT_EFFECT, "x") | {"mcp_servers": [], "service_tier": "standard_only"}
    response = post(served, **silent)
    assert (response.status_code, IGNORED in response.headers) == (200, False)
    for streamed in (False, True):
        response = post(served, surprise=1, tools=[TOOL, SEARCH], stream=streamed)
        assert response.status_code == 200
        assert response.headers[IGNORED] == "surprise, tools[1]"
    assert "tool add\n" in served.pair.prompts[-1]
    assert "web_search" not in served.pair.prompts[-1]


def test_any_model_name_query_and_version_will_do_and_the_answer_says_the_name_again(served: Stand) -> None:
    for model, named in (
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
        ("poolside/Laguna-Script", "poolside/Laguna-Script"),
        ("", "poolside/Laguna-Script"),
        (None, "poolside/Laguna-Script"),
    ):
        response = served.http.post(
            "/messages?beta=true",
            json=asked(model=model),
            headers={"anthropic-version": "2023-06-01", "anthropic-beta": "a,b", "x-api-key": "k"},
        )
        assert response.json()["model"] == named


def test_both_sentences_about_room_are_those_that_claude_code_reads(served: Stand) -> None:
    for length, budget, told in (
        (400, 1, "prompt is too long: 408 tokens > 300 maximum"),
        (293, 1, "prompt is too long: 301 tokens > 300 maximum"),
        (292, 1, "input length and `max_tokens` exceed context limit: 300 + 1 > 300, "),
        (92, 201, "input length and `max_tokens` exceed context limit: 100 + 201 > 300, "),
    ):
        for streamed in (False, True):
            response = post(served, messages=[user(text("x" * length))], max_tokens=budget, stream=streamed)
            assert response.status_code == 400
            assert refused(response)["message"].startswith(told)
    assert post(served, messages=[user(text("x" * 92))], max_tokens=200).status_code == 200


def test_whatever_happens_at_these_paths_has_anthropics_shape(served: Stand) -> None:
    json_type = {"content-type": "application/json"}
    for method, url, content, headers, status, kind in (
        ("POST", "/v1/messages", b"{", json_type, 400, "invalid_request_error"),
        ("POST", "/v1/messages", b"[]", json_type, 400, "invalid_request_error"),
        ("POST", "/v1/messages/count_tokens", b"", json_type, 400, "invalid_request_error"),
        ("POST", "/v1/messages", b"x" * (2 << 20), json_type, 413, "request_too_large"),
        ("POST", "/v1/messages", b"{}", {"content-type": "text/plain"}, 415, "invalid_request_error"),
        ("GET", "/v1/messages", b"", {}, 405, "invalid_request_error"),
        ("POST", "/v1/messages/batches", b"{}", json_type, 404, "not_found_error"),
        ("DELETE", "/messages/batches/b1", b"", {}, 404, "not_found_error"),
    ):
        response = served.http.request(method, url, content=content, headers=headers)
        assert (response.status_code, refused(response)["type"]) == (status, kind)
    assert served.http.get("/v1/messagesx").json()["error"]["code"] == "unknown_url"


def test_a_queue_that_is_full_is_told_with_the_time_to_wait() -> None:
    pair = ScriptPair(forever, context_length=100_000)
    with stand(pair, concurrency=1, queue=0) as served:
        pair.gate.clear()
        with served.http.stream("POST", "/v1/messages", json=asked(stream=True)):
            response = post(served)
            assert (response.status_code, refused(response)["type"]) == (429, "rate_limit_error")
            assert response.headers["retry-after"] == "1"


def test_a_model_that_is_still_loading_is_told_as_overload(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand(ScriptPair(says("x"))) as served:
        monkeypatch.setattr(Engine, "model", property(_loading))
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            response = served.http.post(path, json=asked())
            assert (response.status_code, refused(response)["type"]) == (503, "overloaded_error")
            assert response.headers["retry-after"] == "1"
        monkeypatch.undo()


def _loading(_: Engine) -> None:
    raise ModelLoading


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_crash_is_a_500_without_details_that_clients_do_not_retry(path: str) -> None:
    class Crashing(ScriptTokenizer):
        def encode(self, text: str) -> list[int]:
            raise KeyError("/secret/path")

    with stand(ScriptPair(says("x"), tokenizer=Crashing())) as served:
        response = served.http.post(path, json=asked())
        assert (response.status_code, refused(response)["type"]) == (500, "api_error")
        assert response.headers["x-should-retry"] == "false"
        assert "secret" not in response.text
