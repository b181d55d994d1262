"""Messages of all shapes that clients send, and what the model is shown of them."""

import pytest

from models.messages import for_template
from server.api.chat import schema
from server.turn import Turn
from tests.server.script import ScriptTokenizer

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
OTHER = {"id": "c2", "type": "function", "function": {"name": "sub", "arguments": "{}"}}


def parts(*texts: str, **extra: object) -> list[dict[str, object]]:
    return [{"type": "text", "text": text} | extra for text in texts]


def turn_of(*messages: object, **body: object) -> Turn:
    return schema.turn(schema.read({"messages": list(messages), **body}))


def prompt(*messages: object) -> str:
    return ScriptTokenizer().render(turn_of(*messages).messages)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def assistant(*calls: object, **fields: object) -> dict[str, object]:
    return {"role": "assistant", **({"tool_calls": list(calls)} if calls else {}), **fields}


def result(content: object, id_: str = "c1") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": id_, "content": content}


REFUSAL = {"type": "refusal", "refusal": "no"}
LEGACY = {"name": "f", "arguments": "{}"}
A, B, C = user("a"), user("b"), user("c")
SHAPES: list[tuple[list[object], str]] = [
    ([{"role": "developer", "content": "be brief"}, A], "<system>be brief\n<user>a"),
    ([{"role": "system", "content": parts("S1 ", "S2")}, user(parts("U1 ", "U2"))], "<system>S1 S2\n<user>U1 U2"),
    ([user(parts("a", cache_control={"type": "ephemeral"}))], "<user>a"),
    ([A, {"role": "system", "content": "s"}, B, C], "<user>a\n<system>s\n<user>b\n<user>c"),
    ([A | {"name": "bob"}], "<user>a"),
    ([A, assistant(content="x", tool_calls=[]), B], "<assistant>x\n<user>b"),
    ([A, assistant(CALL), result("5")], "<tool_call>add {'a': 2, 'b': 3}\n<tool>5"),
    ([A, assistant(CALL, content=None), result([])], "<tool>\n"),
    ([A, assistant(CALL, content=""), result(parts("5", "6"))], "<tool>56"),
    (
        [A, assistant(CALL, content=parts("Hm, ", "wait", cache_control={})), result(parts("5", "6")), B],
        "<assistant>Hm, wait<tool_call>add {'a': 2, 'b': 3}\n<tool>56\n<user>b",
    ),
    ([A, assistant(CALL, OTHER), result("6", "c2"), result("5")], "<tool>5\n<tool>6"),
    ([A, assistant(content=None, refusal="I won't"), B], "<assistant>I won't"),
    ([A, assistant(content=[REFUSAL]), B], "<assistant>no"),
    ([A, assistant(CALL, reasoning="R-TEXT", reasoning_content=""), result("5")], "<assistant>R-TEXT<tool_call>add"),
    ([A, assistant(content="x", reasoning_content="first", reasoning="second"), B], "<assistant>firstx"),
    ([A, assistant(function_call=LEGACY), {"role": "function", "name": "f", "content": "r"}], "f {}\n<tool>r"),
    ([A, assistant(), B], "<assistant>\n<user>b"),
]


@pytest.mark.parametrize(("messages", "shown"), SHAPES)
def test_every_shape_of_message_reaches_the_model(messages: list[object], shown: str) -> None:
    assert shown in prompt(*messages)


@pytest.mark.parametrize("arguments", ["", "null", "{", "[1]", None, {"a": 1}])
def test_arguments_that_are_not_an_object_do_not_break_the_turn(arguments: object) -> None:
    call = {"id": "c1", "function": {"name": "add", "arguments": arguments}}
    assert "<tool_call>add" in prompt(A, assistant(call), result("5"))


def test_two_rounds_of_calls_pair_up() -> None:
    history = turn_of(A, assistant(CALL), result("5"), assistant(OTHER), result("6", "c2"), B).messages
    roles = [message["role"] for message in for_template(history)]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]


def test_tools_are_shown_as_declared_and_nothing_absent_is_made_up() -> None:
    turn = turn_of(
        A,
        tools=[
            {"type": "function", "function": {"name": "bare", "description": None, "strict": True}},
            {"type": "function", "cache_control": {}, "function": {"name": "full", "parameters": {"x": None}}},
        ],
    )
    assert turn.tools == (
        {"type": "function", "function": {"name": "bare"}},
        {"type": "function", "function": {"name": "full", "parameters": {"x": None}}},
    )


def test_thinking_is_set_by_effort_and_the_template_argument_wins() -> None:
    for effort, thinking in (("none", False), ("minimal", False), ("low", True), ("max", True)):
        assert turn_of(A, reasoning_effort=effort).template_kwargs == {"enable_thinking": thinking}
    said = turn_of(A, reasoning_effort="high", chat_template_kwargs={"enable_thinking": False, "x": 1})
    assert said.template_kwargs == {"enable_thinking": False, "x": 1}
    assert turn_of(A).template_kwargs == {}


def test_an_empty_list_of_stops_is_none() -> None:
    assert turn_of(A, stop=[]).stops == ()
    assert turn_of(A, stop="x").stops == ("x",)
