"""The table itself: complete, closed, and every act has a doer."""

from tools.attempt import Attempt
from tools.dialect import OUTSIDE, TABLE, Act, State
from tools.events import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning, finish_reason, merged
from tools.tags import ALL_TAGS, Scanner, Sign


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert TABLE.keys() == set(State)
    led_to = {step.to for row in TABLE.values() for step in row.values()} | {
        State.THOUGHT_START,
        State.START,
        State.HELD,
    }
    assert led_to == set(State)


def test_outside_of_calls_every_sign_has_a_step() -> None:
    for state in OUTSIDE:
        assert TABLE[state].keys() == set(Sign), state


def test_every_act_is_in_the_table_and_is_done() -> None:
    used = {step.act for row in TABLE.values() for step in row.values()}
    assert used == set(Act)
    assert {Act.SHOW, Act.REASON, Act.DROP, Act.COMMIT} | Attempt({}).acts.keys() == set(Act)


def test_every_way_ends() -> None:
    for state in OUTSIDE:
        assert {TABLE[state][sign].to for sign in (Sign.STOP, Sign.LENGTH, Sign.TURN_END)} == {State.ENDED}


def test_the_token_limit_completes_nothing() -> None:
    assert [state for state, row in TABLE.items() if Sign.LENGTH in row and state not in OUTSIDE] == []


def test_the_scanner_holds_less_than_a_tag() -> None:
    scanner = Scanner(ALL_TAGS)
    seen = ""
    text = "<<arg_<arg_key></tool_call<think></think> <tool_cal"
    for end, char in enumerate(text, 1):
        seen += "".join(part for _, part in scanner.push(char))
        assert text[:end].startswith(seen)
        held = text[len(seen) : end]
        assert not held or any(tag.startswith(held) and tag != held for tag in ALL_TAGS)
    assert scanner.finish() == [(Sign.TEXT, "<tool_cal")]


def test_neighbouring_pieces_of_one_kind_are_joined() -> None:
    pieces: list[Piece] = [
        Content("a"),
        Content("b"),
        Reasoning("c"),
        Reasoning("d"),
        CallStart(0, "f"),
        CallArguments(0, "{"),
    ]
    pieces += [CallArguments(0, "}"), CallEnd(0), CallStart(1, "f"), CallArguments(1, "{}"), CallEnd(1)]
    assert merged(pieces) == [
        Content("ab"),
        Reasoning("cd"),
        CallStart(0, "f"),
        CallArguments(0, "{}"),
        CallEnd(0),
        CallStart(1, "f"),
        CallArguments(1, "{}"),
        CallEnd(1),
    ]
    assert merged([]) == []


def test_the_token_limit_is_the_finish_reason_before_calls_are() -> None:
    assert finish_reason("stop", 0) == "stop"
    assert finish_reason("stop", 2) == "tool_calls"
    assert finish_reason("length", 2) == "length"
