"""Whatever JSON comes in: a turn, or a refusal by name."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from server.api import parts, wire
from server.api.chat import history, schema
from server.api.wire import json_body, parsed
from server.errors import ClientGone, InvalidValue, Refusal, TooDeep, UnreadableBody
from server.turn import Turn
from server.verdicts import VERDICTS, envelope, headers
from tests.counted import counted
from tests.server.hostile import BODIES


def outcome(body: dict[str, object]) -> Turn | Refusal:
    try:
        return schema.turn(schema.read(body))
    except Refusal as refusal:
        return refusal


@given(BODIES)
def test_any_body_is_a_turn_or_a_named_refusal(body: dict[str, object]) -> None:
    match outcome(body):
        case Refusal() as refusal:
            assert refusal.param
            assert len(json.dumps(envelope(refusal))) < 6000
        case turn:
            assert turn.messages


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_an_object_or_an_unreadable_body(body: bytes) -> None:
    try:
        value: object = parsed(body)
    except (UnreadableBody, TooDeep) as refusal:
        value = {"refused": refusal.message}
    assert isinstance(value, dict)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"temperature": 1e999}', "temperature"),
        (b'{"metadata": {"of": [1, 1e308, -2E+400]}}', "metadata.of[2]"),
        (b'{"tools": [{"parameters": {"maximum": 1e999}}]}', "tools[0].parameters.maximum"),
        (b'{"' + b"a" * 1000 + b'": 1e999}', "a" * 200),
    ],
    ids=["a field", "an item", "a schema", "a long name"],
)
def test_a_number_beyond_a_double_is_refused_wherever_it_is(body: bytes, param: str) -> None:
    """Not every place is looked at by a schema, and no JSON answer could tell it again."""
    with pytest.raises(InvalidValue, match="is beyond the range of a double") as told:
        parsed(body)
    assert told.value.param == param


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"{not json", "Expecting property name enclosed in double quotes (character 1)"),
        (b'{"temperature": NaN}', "NaN is not a JSON value"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "a number in it has too many digits"),
        (b'{"user": "\xff"}', "it is not UTF-8 (byte 10)"),
    ],
    ids=["words", "NaN", "digits", "bytes"],
)
def test_what_is_wrong_with_a_body_is_said_in_the_clients_words(body: bytes, wrong: str) -> None:
    with pytest.raises(UnreadableBody) as told:
        parsed(body)
    assert told.value.message == f"We could not parse the JSON body of your request: {wrong}."


ASK = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{}] * 1000},
        {"messages": [ASK | {"content": [1] * 1000}]},
        {"messages": [ASK | {"reasoning": [1] * 1000}]},
        {"messages": [ASK | {"tool_calls": [1] * 1000}]},
        {"messages": [ASK], "tools": [1] * 1000},
        {"messages": [ASK], "stop": [1] * 1000},
    ],
    ids=lambda body: str(body)[:60],
)
def test_a_list_is_refused_at_its_first_wrong_item(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        schema.ChatRequest.model_validate(body)
    assert caught.value.error_count() == 1


def test_many_calls_and_their_results_are_paired_in_linear_work() -> None:
    with counted(history, parts, schema, wire) as work:
        marks = [work.units]
        for count in (500, 4000):
            calls = [{"id": f"c{index}", "function": {"name": "f"}} for index in range(count)]
            results = [{"role": "tool", "tool_call_id": f"c{index}", "content": "1"} for index in range(count)]
            turn = outcome({"messages": [ASK, {"role": "assistant", "tool_calls": calls}, *results]})
            assert isinstance(turn, Turn)
            assert len(turn.messages) == count + 2
            marks.append(work.units)
    # Eight times the calls; in quadratic work it were 64 times as much.
    assert marks[2] - marks[1] < 10 * (marks[1] - marks[0])


def test_a_client_that_leaves_while_it_sends_is_no_fault_of_ours() -> None:
    parts: Iterator[dict[str, object]] = iter(
        [{"type": "http.request", "body": b'{"mess', "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, object]:
        return next(parts)

    request = Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)
    with pytest.raises(ClientGone):
        asyncio.run(json_body(request, 1000))


def kinds(base: type[Refusal]) -> set[type[Refusal]]:
    return {base}.union(*(kinds(kind) for kind in base.__subclasses__())) if base.__subclasses__() else {base}


def test_every_refusal_has_its_row_in_the_table() -> None:
    assert kinds(Refusal) - {Refusal} == set(VERDICTS)


@pytest.mark.parametrize("kind", VERDICTS, ids=lambda kind: kind.__name__)
def test_a_row_says_whether_another_try_helps(kind: type[Refusal]) -> None:
    row = VERDICTS[kind]
    refusal = Refusal.__new__(kind)
    Refusal.__init__(refusal, "x")
    told = headers(refusal)
    assert ("retry-after" in told) == (row.retry_after is not None)
    assert row.type == ("server_error" if row.status >= 500 else row.type)
    # A client that retries by itself is either told when, or told not to.
    assert (row.status < 500 and row.status != 429) or told
