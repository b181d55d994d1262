"""What is refused, by which status, type, code and parameter, over a real socket."""

import json
from collections.abc import Iterator

import httpx2
import pytest

from server.api.chat import parameters, schema
from server.api.parameters import IGNORED
from tests.server.script import ScriptPair, ScriptTokenizer, says
from tests.server.stand import Stand, asked, stand
from tests.server.wire import refused

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
ASK = {"role": "user", "content": "a"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(says("fine"), context_length=64), max_body_mib=1) as running:
        yield running


def raw(served: Stand, body: str, content_type: str = "application/json") -> httpx2.Response:
    return served.http.post("/v1/chat/completions", content=body, headers={"content-type": content_type})


WRONG = [
    ({"messages": None}, "messages", "missing_required_parameter"),
    ({"messages": "string"}, "messages", "invalid_type"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": [123]}, "messages[0]", "invalid_type"),
    ({"messages": [{}]}, "messages[0].role", "missing_required_parameter"),
    ({"messages": [{"role": 123, "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user", "content": 123}]}, "messages[0].content", "invalid_type"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", "invalid_type"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_type"),
    ({"messages": [ASK, {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url"}]}]},
     "messages[1].content[1].type", "invalid_value"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]", "invalid_value"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]", "invalid_type"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type",
     "missing_required_parameter"),
    ({"messages": [ASK, {"role": "tool", "tool_call_id": "c1", "content": "5"}]}, "messages[1].role", "invalid_value"),
    ({"messages": [ASK, CALLED, ASK]}, "messages[1].tool_calls", "invalid_value"),
    ({"messages": [ASK, CALLED]}, "messages[1].tool_calls", "invalid_value"),
    ({"messages": [ASK, CALLED, {"role": "tool", "tool_call_id": "c2", "content": "5"}]},
     "messages[2].tool_call_id", "invalid_value"),
    ({"messages": [ASK, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[1].tool_calls[0].function",
     "missing_required_parameter"),
    ({"temperature": -1}, "temperature", "invalid_value"),
    ({"temperature": 3}, "temperature", "invalid_value"),
    ({"temperature": "NaN"}, "temperature", "invalid_type"),
    ({"temperature": True}, "temperature", "invalid_type"),
    ({"top_p": -0.1}, "top_p", "invalid_value"),
    ({"top_p": 0}, "top_p", "invalid_value"),
    ({"top_p": 1.5}, "top_p", "invalid_value"),
    ({"min_p": 2}, "min_p", "invalid_value"),
    ({"top_k": 1.5}, "top_k", "invalid_type"),
    ({"max_tokens": True}, "max_tokens", "invalid_type"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": "5"}, "max_tokens", "invalid_type"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", "invalid_parameter_combination"),
    ({"seed": 2**63}, "seed", "invalid_value"),
    ({"seed": -(2**63) - 1}, "seed", "invalid_value"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
    ({"stop": ""}, "stop[0]", "invalid_value"),
    ({"stop": ["a", ""]}, "stop[1]", "invalid_value"),
    ({"stop": ["a", "x" * 1025]}, "stop[1]", "invalid_value"),
    ({"stop": 5}, "stop", "invalid_type"),
    ({"stop": [1]}, "stop[0]", "invalid_type"),
    ({"stream": "yes"}, "stream", "invalid_type"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage", "invalid_type"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": 5}}]}, "tools[0].function.parameters",
     "invalid_type"),
    ({"tool_choice": "auto"}, "tool_choice", "invalid_value"),
    ({"reasoning_effort": "some"}, "reasoning_effort", "invalid_value"),
    ({"speculation": "maybe"}, "speculation", "invalid_value"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages", "invalid_value"),
    ({"chat_template_kwargs": {"refuse": True}}, "messages", "invalid_prompt"),
    ({"n": 0}, "n", "invalid_value"),
    ({"n": 9}, "n", "invalid_value"),
    ({"n": True}, "n", "invalid_type"),
    ({"n": "1"}, "n", "invalid_type"),
    ({"logprobs": 1}, "logprobs", "invalid_type"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
    ({"logprobs": True, "top_logprobs": True}, "top_logprobs", "invalid_type"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
    ({"top_logprobs": 0, "logprobs": False}, "top_logprobs", "invalid_value"),
    ({"logit_bias": {"7": -101}}, "logit_bias.7", "invalid_value"),
    ({"logit_bias": {"7": True}}, "logit_bias.7", "invalid_type"),
    ({"logit_bias": {"seven": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"07": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"-1": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": [7]}, "logit_bias", "invalid_type"),
    ({"presence_penalty": 2.1}, "presence_penalty", "invalid_value"),
    ({"presence_penalty": False}, "presence_penalty", "invalid_type"),
    ({"frequency_penalty": -3}, "frequency_penalty", "invalid_value"),
    ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
    ({"repetition_penalty": 11}, "repetition_penalty", "invalid_value"),
    ({"min_tokens": -1}, "min_tokens", "invalid_value"),
    ({"min_tokens": 5, "max_tokens": 4}, "min_tokens", "invalid_value"),
    ({"thinking_token_budget": -1}, "thinking_token_budget", "invalid_value"),
    ({"parallel_tool_calls": 0}, "parallel_tool_calls", "invalid_type"),
    ({"service_tier": "cheap"}, "service_tier", "invalid_value"),
    ({"prediction": "x"}, "prediction", "invalid_type"),
    ({"prediction": {"type": "content"}}, "prediction.content", "missing_required_parameter"),
    ({"prediction": {"type": "content", "content": None}}, "prediction.content", "invalid_type"),
    ({"prediction": {"type": "content", "content": 5}}, "prediction.content", "invalid_type"),
    ({"prediction": {"type": "text", "content": "x"}}, "prediction.type", "invalid_value"),
    ({"prediction": {"type": "content", "content": [{"type": "image_url"}]}}, "prediction.content[0].type",
     "invalid_value"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param", "code"), WRONG, ids=lambda value: json.dumps(value, default=str)[:60])
def test_a_wrong_value_is_refused_by_the_path_of_its_field(
    served: Stand, body: dict[str, object], param: str, code: str
) -> None:
    for streamed in ({}, {"stream": True} if "stream" not in body and "stream_options" not in body else {}):
        response = served.post(**body, **streamed)
        error = refused(response)
        assert (response.status_code, error["type"]) == (400, "invalid_request_error")
        assert (error["param"], error["code"]) == (param, code), error["message"]
        assert "instance of" not in error["message"]


UNSUPPORTED: dict[str, list[object]] = {
    "functions": [[{"name": "f"}]],
    "function_call": ["auto", {"name": "f"}],
    "modalities": [["text", "audio"]],
    "moderation": [{"model": "m", "policy": {"input": {"mode": "block"}}}],
    "audio": [{"voice": "alloy"}],
    "verbosity": ["low"],
    "web_search_options": [{}],
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_would_change_the_answer_and_is_not_honoured_is_refused_by_name(served: Stand, name: str) -> None:
    for value in UNSUPPORTED[name]:
        error = refused(served.post(tools=[TOOL], **{name: value}))
        assert (error["param"], error["code"]) == (name, "unsupported_parameter")
        assert name in error["message"]


def test_every_refused_field_is_tried() -> None:
    assert UNSUPPORTED.keys() == parameters.ONLY.keys()


def test_null_is_absent_and_defaults_are_accepted(served: Stand) -> None:
    names = [*parameters.ONLY, *parameters.WITHOUT_EFFECT, *schema.ChatRequest.model_fields]
    response = served.post(**dict.fromkeys(name for name in names if name != "messages"))
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "fine"
    assert IGNORED not in response.headers
    defaults = {
        "n": 1,
        "logprobs": False,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "response_format": {"type": "text"},
        "parallel_tool_calls": True,
        "modalities": ["text"],
        "logit_bias": {},
        "service_tier": "auto",
        "tool_choice": "none",
    }
    assert served.post(**defaults).status_code == 200


def test_what_has_no_effect_and_what_nobody_knows_is_accepted(served: Stand) -> None:
    silent = {"user": "u", "metadata": {"a": "b"}, "store": False, "safety_identifier": "s", "prompt_cache_key": "k"}
    foreign = {"reasoningSummary": "auto", "thinking": {"type": "enabled"}, "client_metadata": {}, "cache": 1}
    assert served.post(**silent, **foreign).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        "{not json",
        "",
        '{"temperature": NaN}',
        '{"temperature": -Infinity}',
        "[" * 100_000,
        '{"seed": ' + "9" * 5000 + "}",
        '"text"',
        "[]",
        "null",
        "5",
        "\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda body: body[:20],
)
def test_a_body_that_is_not_a_json_object_is_refused(served: Stand, body: str) -> None:
    response = raw(served, body)
    error = refused(response)
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", None)


def test_numbers_that_overflow_are_refused(served: Stand) -> None:
    error = refused(raw(served, '{"messages":[{"role":"user","content":"hi"}],"temperature":1e999}'))
    assert error["param"] == "temperature"


def test_a_body_that_does_not_call_itself_json_is_refused(served: Stand) -> None:
    assert raw(served, json.dumps(asked()), "application/json; charset=utf-8").status_code == 200
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonish"):
        response = raw(served, json.dumps(asked()), content_type)
        assert (response.status_code, refused(response)["code"]) == (415, "unsupported_media_type")


def test_a_body_that_is_too_long_is_refused_with_and_without_a_declared_length(served: Stand) -> None:
    long = json.dumps(asked(user="x" * (1 << 20))).encode()
    for content in (long, iter([long[:1000], long[1000:]])):
        response = served.http.post(
            "/v1/chat/completions", content=content, headers={"content-type": "application/json"}
        )
        assert (response.status_code, refused(response)["code"]) == (413, "request_too_large")


def test_half_a_surrogate_pair_is_not_our_crash(served: Stand) -> None:
    body = '{"model":"\\ud83d","messages":[{"role":"user","content":"a\\ud83d"}]}'
    assert raw(served, body).status_code == 404
    assert raw(served, body.replace('"\\ud83d",', "null,")).status_code == 200


def test_the_overflow_message_is_the_one_that_agents_read(served: Stand) -> None:
    for streamed in (True, False):
        response = served.post(messages=[{"role": "user", "content": "x" * 100}], stream=streamed)
        assert refused(response) == {
            "message": "This model's maximum context length is 64 tokens. However, your messages resulted in 108 "
            "tokens. Please reduce the length of the messages. (context_length_exceeded)",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }


def test_a_budget_beyond_the_context_is_narrowed_to_what_is_left(served: Stand) -> None:
    for wanted in ({"max_tokens": 10**30}, {}, {"max_completion_tokens": 64}):
        served.pair.requests.clear()
        assert served.post(**wanted).status_code == 200
        (request,) = served.pair.requests
        assert len(request.prompt) + request.max_tokens == 64


def test_another_model_is_not_found(served: Stand) -> None:
    response = served.post(model="gpt-4o")
    assert response.status_code == 404
    assert refused(response) == {
        "message": (
            "The model `gpt-4o` does not exist or you do not have access to it. Served here: `poolside/Laguna-Script`."
        ),
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_unknown_urls_and_wrong_methods_get_the_envelope_too(served: Stand) -> None:
    for method, url, status, code in (
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("GET", "/nowhere", 404, "unknown_url"),
        ("GET", "/v1/models/nobody/knows", 404, "model_not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/models", 405, "method_not_allowed"),
    ):
        response = served.http.request(method, url)
        assert (response.status_code, refused(response)["code"]) == (status, code)


@pytest.mark.parametrize("url", ["/", "/status", "/static/playground.css", "/health", "/ready"])
def test_a_look_without_a_body_is_answered_as_the_whole_would_be(served: Stand, url: str) -> None:
    head, whole = served.http.head(url), served.http.get(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert url in ("/health", "/ready") or head.headers["content-length"] == whole.headers["content-length"]


def test_what_a_refusal_quotes_is_bounded(served: Stand) -> None:
    for body in (
        {"model": "x" * 5000},
        {"messages": [{"role": "user", "content": [{"type": "y" * 5000}]}]},
        {"messages": [{"role": "user", "content": 1}] * 5000},
        {"stop": "z" * 5000, "reasoning_effort": "w" * 5000},
        {"messages": [ASK, {"role": "assistant", "tool_calls": [CALL | {"id": "i" * 5000}]}]},
    ):
        response = served.post(**body)
        assert response.status_code in (400, 404)
        refused(response)


def test_a_crash_is_a_500_without_details_that_clients_do_not_retry() -> None:
    class Crashing(ScriptTokenizer):
        def encode(self, text: str) -> list[int]:
            raise KeyError("/secret/path")

    with stand(ScriptPair(says("x"), tokenizer=Crashing())) as served:
        response = served.post()
        error = refused(response)
        assert (response.status_code, error["type"], error["code"]) == (500, "server_error", "internal_error")
        assert response.headers["x-should-retry"] == "false"
        assert "secret" not in response.text
