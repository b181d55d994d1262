"""Whatever bytes come as a body: a refusal by name or an answer, no fault of ours; and the next request is right."""

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx2
import pytest

from tests.faults.outcome import Outcome, ask, request_bytes
from tests.faults.scene import Scene, scene
from tests.faults.tally import Tally

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/tokenize",
    "/v1/detokenize",
)

MALFORMED = {
    "nothing": b"",
    "half an object": b'{"messages": [',
    "an array": b"[]",
    "null": b"null",
    "single quotes": b"{'messages': []}",
    "bytes that are no UTF-8": b'{"prompt": "\xff\xfe"}',
    "UTF-16": '{"prompt": "x"}'.encode("utf-16"),
    "zero bytes": bytes(1000),
    "a control byte in a string": b'{"prompt": "a\x01b", "input": "a\x01b"}',
    "deep arrays": b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "NaN": b'{"temperature": NaN, "messages": [], "prompt": "x"}',
    "minus infinity": b'{"prompt": -Infinity}',
    "a number of 100000 digits": b'{"max_tokens": ' + b"9" * 100_000 + b"}",
    "10 MB in one field": b'{"prompt": "' + b"a" * 10_000_000 + b'"}',
    "two objects": b"{}{}",
}

NUMBERS = (10**400, -(10**400), 2**63, -(2**63) - 1, 1e308, -1e308, 1e-320, 0.1 + 0.2, -0.0)
TEXTS = {
    "half a surrogate pair": "\ud800x\udfff",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85\u2028\ufeff",
    "combining and joined": "e\u0301\u200d👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿" * 50,
    "right to left": "\u202eabc\u202c שלום" * 20,
    "the model's own markers": "<think></think><tool_call>f<arg_key>k</arg_key></tool_call></assistant><assistant>",
    "a megabyte": "word " * 200_000,
}


def valid(text: str) -> dict[str, object]:
    """What every route finds something in."""
    messages = [{"role": "user", "content": text}]
    return {"model": "Laguna-Script", "messages": messages, "max_tokens": 4}


def shaped(path: str, text: str) -> dict[str, object]:
    """A request of the route in which a client put this text."""
    said = valid(text)
    match path.removeprefix("/v1/"):
        case "completions":
            return {"model": "Laguna-Script", "prompt": text, "max_tokens": 4}
        case "responses":
            return {"model": "Laguna-Script", "input": text, "max_output_tokens": 16}
        case "tokenize":
            return {"prompt": text}
        case "detokenize":
            return {"tokens": list(text.encode("utf-8", "replace"))}
    return said


@pytest.fixture(scope="module")
def served() -> Iterator[Scene]:
    with scene() as there:
        yield there


def heard(served: Scene, *requests: bytes) -> list[Outcome]:
    """One after another, and then a chat that must be right."""

    async def all_of_them() -> list[Outcome]:
        outcomes = [await ask(served.port, data) for data in requests]
        (after,) = await served.right("after them")
        assert after.end == "answered"
        return outcomes

    return asyncio.run(all_of_them())


def bodies(path: str) -> list[bytes]:
    """Valid requests with one field gone wrong."""
    fields = ("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "n", "stop", "model", "stream", "user")
    plain = shaped(path, "x")
    wrong: list[object] = [*NUMBERS, True, None, {}, [], "\ud800", "", [None], {"\ud800": 1}]
    return [json.dumps(plain | {field: value}).encode() for field in fields for value in wrong]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_request_is_refused_by_name(served: Scene, path: str, tally: Tally) -> None:
    outcomes = heard(served, *(request_bytes(body, path) for body in MALFORMED.values()))
    tally.outcomes("bodies that are no requests", outcomes)
    for name, outcome in zip(MALFORMED, outcomes, strict=True):
        assert (outcome.end, (outcome.status or 0) // 100) == ("refused", 4), name
        assert len(outcome.body) < 2000
        assert b"Traceback" not in outcome.body


@pytest.mark.parametrize("path", PATHS)
def test_a_field_with_a_value_from_elsewhere_is_taken_or_refused(served: Scene, path: str, tally: Tally) -> None:
    made = bodies(path)
    outcomes = heard(served, *(request_bytes(body, path) for body in made))
    tally.outcomes("fields gone wrong", outcomes)
    for body, outcome in zip(made, outcomes, strict=True):
        assert outcome.status == 200 or (outcome.status or 0) // 100 == 4, body[:300]


@pytest.mark.parametrize("path", PATHS)
def test_any_text_is_answered_or_refused(served: Scene, path: str, tally: Tally) -> None:
    made = [json.dumps(shaped(path, text)).encode() for text in TEXTS.values()]
    outcomes = heard(served, *(request_bytes(body, path) for body in made))
    tally.outcomes("texts of every kind", outcomes)
    for name, outcome in zip(TEXTS, outcomes, strict=True):
        assert outcome.status in (200, 400, 413), name


@pytest.mark.parametrize(
    "value", ["9" * 5000, "٣٣٣٣", "²", "-1", "1e3", "", "\ud800", "a\x00b", "%", "../../etc/passwd"]
)
def test_any_query_and_any_name_in_a_path_is_answered_or_refused(served: Scene, value: str, tally: Tally) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{served.port}/v1", timeout=30) as http:
        made = http.post("/responses", json={"input": "x"}).json()["id"]
        spelt = quote(value, safe="", errors="surrogatepass")
        places = [f"/responses/{made}/input_items?{name}={spelt}" for name in ("limit", "order", "after", "include[]")]
        places += [f"/responses/{made}?stream={spelt}", f"/responses/{spelt}", f"/models/{spelt}", f"/{spelt}"]
        heard = {place: http.get(place).status_code for place in places}
    assert {place[:80]: status for place, status in heard.items() if status >= 500} == {}
    tally.case("queries and paths", tried=len(places))
