"""Whatever JSON comes in: a turn, or a refusal by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.chat import schema
from server.api.wire import parsed
from server.errors import VERDICTS, Refusal, UnreadableBody, envelope, headers
from server.turn import Turn

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])
PARTS = st.fixed_dictionaries({"type": st.sampled_from(["text", "refusal", "image_url"])}, optional={"text": VALUES})
CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.text(max_size=3)}, optional={"arguments": VALUES})},
    optional={"id": st.sampled_from(["c1", "c2"]) | VALUES},
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES | VALUES},
    optional={
        "content": VALUES | st.lists(PARTS, max_size=2),
        "tool_calls": VALUES | st.lists(CALLS, max_size=2),
        "tool_call_id": st.sampled_from(["c1", "c2"]) | VALUES,
        "reasoning": VALUES,
        "function_call": VALUES,
    },
)
FIELDS = sorted({*schema.ChatRequest.model_fields, *schema.ONLY} - {"messages"})
BODIES = st.builds(
    lambda messages, rest: {"messages": messages} | rest,
    st.lists(MESSAGES, min_size=1, max_size=4) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)


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
    except UnreadableBody as refusal:
        value = {"refused": refusal.message}
    assert isinstance(value, dict)


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
