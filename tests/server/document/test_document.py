"""The OpenAPI document is true: what it allows or forbids gets the statuses and shapes that it names."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.core.jsonschema.types import JsonValue
from schemathesis.specs.openapi.checks import positive_data_acceptance

from server.api.document.answers import ANSWERS
from server.api.document.requests import BODIES
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand

SPOKEN = "Look.</think>Hi<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
CROSS_FIELD: list[CheckFunction] = [positive_data_acceptance]
"""What a schema cannot say is a 400 too: fields at odds with each other, results without calls, tokens out of range."""
FEW = settings(
    max_examples=10,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(says(SPOKEN, block=5))) as running:
        yield running


@pytest.fixture(scope="module")
def schema(served: Stand) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{served.port}/openapi.json")


def test_every_path_of_the_document_says_what_it_answers(served: Stand) -> None:
    document = served.http.get("/openapi.json").json()
    told = {(method, path) for path, item in document["paths"].items() for method in item}
    assert told - ANSWERS.keys() == {("get", "/metrics")}
    assert ANSWERS.keys() < told
    assert {path for path, item in document["paths"].items() if "requestBody" in item.get("post", {})} == set(BODIES)
    names = document["components"]["schemas"]
    assert all(f"#/components/schemas/{name}" in served.http.get("/openapi.json").text for name in ANSWERS.values())
    for each in names.values():
        Draft202012Validator.check_schema(each)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_body_gets_a_status_or_a_shape_that_is_not_documented(
    schema: schemathesis.BaseSchema, path: str, mode: GenerationMode
) -> None:
    @FEW
    @given(case=schema[path]["POST"].as_strategy(generation_mode=mode))
    def holds(case: schemathesis.Case) -> None:
        # Only one name is served, and no generator guesses it.
        if isinstance(case.body, dict) and mode is GenerationMode.POSITIVE:
            case.body.pop("model", None)
        case.call_and_validate(excluded_checks=CROSS_FIELD, timeout=10)

    holds()


@pytest.mark.parametrize(("method", "path"), [each for each in ANSWERS if each[1] not in BODIES])
def test_no_other_request_does(schema: schemathesis.BaseSchema, method: str, path: str) -> None:
    @FEW
    @given(case=schema[path][method.upper()].as_strategy())
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate(excluded_checks=CROSS_FIELD, timeout=10)

    holds()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "n": 2, "logprobs": True}),
        ("/v1/completions", {"prompt": [[104, 105]], "logprobs": 1, "stop": ["H"]}),
        ("/v1/responses", {"input": [{"role": "user", "content": "hi"}], "reasoning": {"effort": "high"}}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 60}),
        ("/v1/tokenize", {"messages": [{"role": "user", "content": "hi"}], "with_pieces": True}),
    ],
)
def test_a_real_request_and_its_answer_are_as_documented(
    served: Stand, schema: schemathesis.BaseSchema, path: str, body: dict[str, JsonValue]
) -> None:
    document = served.http.get("/openapi.json").json()
    asked = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator(asked | {"components": document["components"]}).validate(body)
    response = schema[path]["POST"].Case(body=body).call(timeout=10)
    assert response.status_code == 200
    schema[path]["POST"].validate_response(response)
    streamed = served.http.post(path, json=body | {"stream": True})
    media = streamed.headers["content-type"].partition(";")[0]
    assert media in document["paths"][path]["post"]["responses"]["200"]["content"]
