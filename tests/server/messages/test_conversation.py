"""Blocks of all shapes that clients send, and what the model is shown of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.limits import PARTS
from server.api.messages import parameters, schema
from server.api.messages.refusal import envelope
from server.api.sealing import opened, sealed
from server.errors import Refusal
from server.turn import Forced, Turn
from tests.server.hostile import TEXTS, VALUES
from tests.server.script import ScriptTokenizer
from tools.grammar import JsonAnswer

ADD = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"a": {}}}}
SUB = {"type": "custom", "name": "sub", "input_schema": {"type": "object"}, "strict": True, "cache_control": {}}


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


def assistant(*content: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(content)}


def text(text: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": text} | more


def use(id_: str, name: str = "add", **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def result(id_: str, content: object = None, **more: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content} | more


def turn_of(*messages: object, **body: object) -> Turn:
    asked = {"max_tokens": 100, "messages": list(messages)} | body
    return schema.understood(json.dumps(asked).encode()).turn


def prompt(*messages: object, **body: object) -> str:
    turn = turn_of(*messages, **body)
    return ScriptTokenizer().render(turn.messages, turn.tools).removesuffix("\n<assistant>")


A, B = user(text("a")), user(text("b"))
THOUGHT = {"type": "thinking", "thinking": "R1 ", "signature": "whatever"}
SHAPES: list[tuple[list[object], str]] = [
    ([{"role": "user", "content": "a"}], "<user>a"),
    ([user(text("U1 ", cache_control={"type": "ephemeral"}), text("U2"))], "<user>U1 U2"),
    ([A, B], "<user>a\n<user>b"),
    ([A, {"role": "assistant", "content": "x"}, B], "<user>a\n<assistant>x\n<user>b"),
    ([A, assistant(), B], "<user>a\n<assistant>\n<user>b"),
    ([A, {"role": "system", "content": "s"}, B], "<user>a\n<system>s\n<user>b"),
    ([A, assistant(text("x"), use("t1", a=2)), user(result("t1", "5"))],
     "<user>a\n<assistant>x<tool_call>add {'a': 2}\n<tool>5"),
    ([A, assistant(use("t1"), use("t2", "sub")), user(result("t2", "6"), result("t1", "5"), text("now"))],
     "<user>a\n<assistant><tool_call>add {}<tool_call>sub {}\n<tool>5\n<tool>6\n<user>now"),
    ([A, assistant(use("t1"), use("t2", "sub")), user(result("t1", "5")), user(result("t2", "6"))],
     "<user>a\n<assistant><tool_call>add {}<tool_call>sub {}\n<tool>5\n<tool>6"),
    ([A, assistant(use("t1")), user(text("see"), result("t1", [text("5"), text("6")]))],
     "<user>a\n<assistant><tool_call>add {}\n<tool>56\n<user>see"),
    ([A, assistant(use("t1")), user(result("t1"))], "<user>a\n<assistant><tool_call>add {}\n<tool>"),
    ([A, assistant(use("t1")), user(result("t1", "no such file", is_error=True))],
     "<user>a\n<assistant><tool_call>add {}\n<tool>Error: no such file"),
    ([A, assistant(use("t1")), user(result("t1", "<tool_use_error>no</tool_use_error>", is_error=True))],
     "<user>a\n<assistant><tool_call>add {}\n<tool><tool_use_error>no</tool_use_error>"),
    ([A, assistant(THOUGHT, {"type": "redacted_thinking", "data": "zz"}, text("x")), B],
     "<user>a\n<assistant>R1 x\n<user>b"),
    ([A, assistant({"type": "thinking", "thinking": "", "signature": sealed("R2 ")}, text("x")), B],
     "<user>a\n<assistant>R2 x\n<user>b"),
    ([A, assistant(use("t1")), user(result("t1", "5")), assistant(use("t1")), user(result("t1", "6"))],
     "<user>a\n<assistant><tool_call>add {}\n<tool>5\n<assistant><tool_call>add {}\n<tool>6"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "shown"), SHAPES, ids=lambda value: str(value)[-60:])
def test_the_model_is_shown_all_of_it_in_order(messages: list[object], shown: str) -> None:
    assert prompt(*messages) == shown


def test_the_system_prompt_comes_first_as_a_string_or_in_blocks() -> None:
    assert prompt(A, system="be brief") == "<system>be brief\n<user>a"
    assert prompt(A, system=[text("be "), text("brief", cache_control={})]) == "<system>be brief\n<user>a"
    assert prompt(A, system=[text("You are."), text("Be brief."), text("\n\nx")]) == (
        "<system>You are.\nBe brief.\n\nx\n<user>a"
    )
    assert prompt(A, system=[text(""), text("s"), text("")]) == "<system>s\n<user>a"
    assert prompt(A, system=[]) == prompt(A, system=None) == "<user>a"
    assert prompt(A, system="") == "<system>\n<user>a"


def test_the_billing_block_that_changes_with_each_request_is_left_out() -> None:
    billing = [text(f"x-anthropic-billing-header: cc_version=2.1; cch={hash_};") for hash_ in ("00ab1", "f77cd")]
    prompts = {prompt(A, system=[header, text("You are.")]) for header in billing}
    assert prompts == {"<system>You are.\n<user>a"}
    assert prompt(A, system=billing[:1]) == "<user>a"
    assert "x-anthropic" in prompt(user(billing[0]))


def test_tools_are_declared_as_functions_and_not_where_none_may_be_used() -> None:
    (add, sub) = turn_of(A, tools=[ADD, SUB]).tools
    assert add["function"] == {"name": "add", "description": "Adds.", "parameters": ADD["input_schema"]}
    assert sub["function"] == {"name": "sub", "parameters": {"type": "object"}}
    assert turn_of(A, tools=[ADD], tool_choice={"type": "none"}).tools == ()


def test_a_choice_of_tools_is_what_the_answer_is_held_to() -> None:
    places = {"add": "tools[0].input_schema", "sub": "tools[1].input_schema"}
    free = Forced(strict=frozenset({"sub"}), param="tools", places=places)
    assert turn_of(A, tools=[ADD, SUB]).forced == free
    assert turn_of(A, tools=[ADD, SUB], tool_choice={"type": "auto"}).forced == free
    some = turn_of(A, tools=[ADD, SUB], tool_choice={"type": "any"})
    assert (some.forced.called, some.forced.callable, some.one_call) == (True, None, False)
    one = turn_of(A, tools=[ADD, SUB], tool_choice={"type": "tool", "name": "add"})
    assert (one.forced.called, one.forced.callable, one.one_call) == (True, {"add"}, True)
    for kind in ("auto", "any"):
        choice = {"type": kind, "disable_parallel_tool_use": True}
        assert turn_of(A, tools=[ADD], tool_choice=choice).one_call


def test_a_format_is_what_the_answer_is_held_to() -> None:
    shape = {"type": "object", "properties": {"x": {"type": "integer"}}}
    held = turn_of(A, output_config={"effort": "low", "format": {"type": "json_schema", "schema": shape}}).forced
    assert held.answer == JsonAnswer(shape, strict=True)
    assert held.param == "output_config.format.schema"


def test_thinking_is_the_checkpoints_own_unless_it_is_said() -> None:
    assert turn_of(A).template_kwargs == {}
    assert turn_of(A, output_config={"effort": "low"}).template_kwargs == {}
    assert turn_of(A, thinking={"type": "disabled"}).template_kwargs == {"enable_thinking": False}
    assert turn_of(A, thinking={"type": "adaptive"}).template_kwargs == {"enable_thinking": True}
    bounded = turn_of(A, thinking={"type": "enabled", "budget_tokens": 99})
    assert (bounded.template_kwargs, bounded.thinking_budget) == ({"enable_thinking": True}, 99)


def test_wishes_and_bounds_are_passed_on() -> None:
    turn = turn_of(A, temperature=0.5, top_k=0, top_p=0.9, seed=7, stop_sequences=["x"] * 64, speculation="off")
    wishes = turn.wishes
    assert (wishes.temperature, wishes.top_k, wishes.top_p, wishes.seed) == (0.5, 0, 0.9, 7)
    assert (len(turn.stops), turn.max_tokens, turn.whole_budget, turn.speculation) == (64, 100, True, "off")


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_a_sealed_thought_is_opened_again(thought: str) -> None:
    assert opened(sealed(thought)) == thought.encode("utf-8", "replace").decode()


@given(st.text(max_size=20))
def test_any_other_signature_holds_nothing(signature: str) -> None:
    assert opened(signature) == ""
    assert opened(f"laguna-thought:{signature}!") == ""


KINDS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image"])
IDS = st.sampled_from(["t1", "t2"])
BLOCKS = st.fixed_dictionaries(
    {"type": KINDS | VALUES},
    optional={
        "text": TEXTS | VALUES,
        "thinking": TEXTS | VALUES,
        "signature": TEXTS | VALUES,
        "id": IDS | VALUES,
        "tool_use_id": IDS | VALUES,
        "name": TEXTS | VALUES,
        "input": st.dictionaries(TEXTS, VALUES, max_size=2) | VALUES,
        "content": VALUES,
        "is_error": VALUES,
    },
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]) | VALUES,
        "content": TEXTS | st.lists(BLOCKS, max_size=3) | VALUES,
    }
)
FIELDS = sorted({*schema.MessagesRequest.model_fields, *parameters.ONLY} - {"messages"})
BODIES = st.builds(
    lambda messages, rest: {"max_tokens": 5, "messages": messages} | rest,
    st.lists(MESSAGES, min_size=1, max_size=4) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)


@given(BODIES)
def test_any_body_is_a_turn_or_a_refusal_of_bounded_size(body: dict[str, Any]) -> None:
    for read in (schema.understood, schema.countable):
        for told in outcome(read, json.dumps(body, allow_nan=True).encode()):
            assert len(json.dumps(envelope(told, "req_0"))) < 6000


def outcome(read: Any, body: bytes) -> Iterator[Refusal]:  # noqa: ANN401
    try:
        assert read(body).turn.messages
    except Refusal as refusal:
        yield refusal


def test_many_uses_and_their_results_are_paired_in_linear_time() -> None:
    messages: list[object] = [A]
    for names in ([f"t{start + index}" for index in range(PARTS)] for start in range(0, 5 * PARTS, PARTS)):
        messages += [assistant(*map(use, names)), user(*(result(name, "1") for name in names))]
    assert len(turn_of(*messages).messages) == 1 + 5 * (1 + PARTS)
