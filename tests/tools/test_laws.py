"""The laws of the dialect, on texts nobody thought of."""

import json
import re
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tools.reading import read, tool
from tools.events import CallArguments, CallEnd, CallStart, Content, Reasoning
from tools.laguna import fold
from tools.tags import ALL_TAGS

TOOLS = [
    tool(
        "f",
        {
            "s": {"type": "string"},
            "n": {"type": "integer"},
            "u": {"type": ["string", "null", "object"]},
            "a": {"type": "array"},
            "x": {},
        },
    ),
    tool("go", {}),
]
FRAGMENTS = [*ALL_TAGS, "f", "go", "s", "n", "u", "a", "x", "1", " ", "\n", "<", "</arg_", "{", '"', "null", "[1]", "é"]
markup = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)
call_like = st.builds(
    lambda name, pairs, tail: f"<tool_call>{name}{''.join(pairs)}{tail}",
    st.sampled_from(["f", "go", "other", ""]),
    st.lists(
        st.builds(
            lambda key, value: f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
            st.sampled_from("snuaxz"),
            markup | st.text(max_size=8),
        ),
        max_size=3,
    ),
    st.sampled_from(["</tool_call>", "", "x", "</assistant>"]),
)
texts = st.lists(markup | call_like | st.text(max_size=10), max_size=4).map("".join)
End = Literal["stop", "length"]
ends: st.SearchStrategy[End] = st.sampled_from(["stop", "length"])


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@settings(max_examples=250, deadline=None)
@given(st.data(), texts, st.booleans(), ends)
def test_cutting_never_matters(data: st.DataObject, text: str, thinking: bool, end: End) -> None:
    whole = read([text], TOOLS, thinking=thinking, end=end)
    assert read(list(text), TOOLS, thinking=thinking, end=end) == whole
    assert read(data.draw(cut(text)), TOOLS, thinking=thinking, end=end) == whole


@settings(max_examples=250, deadline=None)
@given(texts, st.booleans(), ends)
def test_a_finished_call_is_a_json_object_and_a_stream_is_well_formed(text: str, thinking: bool, end: End) -> None:
    pieces = read(list(text), TOOLS, thinking=thinking, end=end)
    for call in fold(pieces).calls:
        assert call.name
        assert isinstance(json.loads(call.arguments, parse_constant=_no_constant), dict)
        assert not any("<arg_" in key or "</arg_" in key for key in json.loads(call.arguments))
    _check_order(pieces)


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def _check_order(pieces: list[Any]) -> None:
    started = open_index = -1
    for piece in pieces:
        match piece:
            case CallStart(index):
                assert index == started + 1
                started = open_index = index
            case CallArguments(index, fragment):
                assert index == open_index
                assert fragment
            case CallEnd(index):
                assert index == open_index
                open_index = -1
            case Content(text) | Reasoning(text):
                assert text


@settings(max_examples=120, deadline=None)
@given(texts, st.booleans())
@example(" <think><tool_call>", False)
def test_nothing_is_lost_and_nothing_invented(text: str, thinking: bool) -> None:
    """Where no call is read only the marks of thinking and of the turn's end go; all other bytes stay, in order."""
    message = fold(read([text], TOOLS, thinking=thinking))
    if message.calls:
        message = fold(read([text], [], thinking=thinking))
    shown = text.partition("</assistant>")[0]
    if thinking:
        reasoning, _, content = shown.partition("</think>")
        pieces = re.sub("</?think>", "", reasoning), re.sub("</?think>", "", content)
    else:
        pieces = ("", re.sub("</?think>", "", shown))
    seen = [re.sub("</?think>", "", part or "") for part in (message.reasoning, message.content)]
    # White space before a `<think>` is content, and a message tells its reasoning first.
    assert sorted("".join(seen)) == sorted("".join(pieces))
    assert all(_runs_through(part, "".join(pieces)) for part in seen)


def _runs_through(part: str, whole: str) -> bool:
    """Whether the characters of `part` are in `whole`, in order."""
    left = iter(whole)
    return all(character in left for character in part)


@settings(max_examples=100, deadline=None)
@given(st.text().filter(lambda text: not any(tag in text for tag in ALL_TAGS)), st.booleans())
def test_text_without_marks_is_untouched(text: str, thinking: bool) -> None:
    message = fold(read(list(text), TOOLS, thinking=thinking))
    assert (message.reasoning or "", message.content or "") == ((text, "") if thinking else ("", text))
    assert message.calls == ()


names = st.from_regex(r"[A-Za-z_][\w.-]{0,20}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TYPED = {
    "string": st.text(max_size=30) | st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    "integer": st.integers(),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.lists(json_values, max_size=3),
    "object": st.dictionaries(st.text(max_size=5), json_values, max_size=3),
}
# A value ends at the first </arg_value> before a further tag of the call: strings that contain that cannot be read.
UNREADABLE = re.compile(r"\A<arg_value>|</arg_value>\s*(?:<arg_key>|</tool_call>|</assistant>)", re.DOTALL)


Written = tuple[dict[str, Any], str, dict[str, Any]]


@st.composite
def written_calls(draw: st.DrawFn) -> Written:
    """A tool, a call to it as a chat template writes it, and the arguments."""
    keys = draw(st.lists(names, max_size=4, unique=True))
    types = {key: draw(st.sampled_from(sorted(TYPED))) for key in keys}
    values = {key: draw(TYPED[kind].filter(_readable)) for key, kind in types.items()}
    name = draw(names)
    gap = draw(st.sampled_from(["", "\n"]))
    pairs = [
        f"<arg_key>{key}</arg_key>{gap}<arg_value>{_spelled(value)}</arg_value>{gap}" for key, value in values.items()
    ]
    text = f"<tool_call>{name}{gap}{''.join(pairs)}</tool_call>{gap}"
    return tool(name, {key: {"type": kind} for key, kind in types.items()}), text, values


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _readable(value: object) -> bool:
    return not UNREADABLE.search(_spelled(value) + "</arg_value>x")


@settings(max_examples=120, deadline=None)
@given(st.lists(written_calls(), min_size=1, max_size=3), st.text(max_size=10), st.sampled_from([1, 4, 10**6]))
def test_what_a_template_writes_is_read_back(calls: list[Written], lead: str, size: int) -> None:
    tools = list({shape["function"]["name"]: shape for shape, _, _ in reversed(calls)}.values())
    calls = [call for call in calls if call[0] in tools]
    text = lead.replace("<", "") + "".join(text for _, text, _ in calls)
    message = fold(read([text[at : at + size] for at in range(0, len(text), size)], tools))
    seen = [(call.name, json.loads(call.arguments)) for call in message.calls]
    assert seen == [(shape["function"]["name"], values) for shape, _, values in calls]
    assert (message.content or "").strip() == lead.replace("<", "").strip()


@settings(max_examples=100, deadline=None)
@given(written_calls(), st.text(max_size=10))
def test_a_call_at_the_end_of_unclosed_thinking_reads_like_any_other(written: Written, thought: str) -> None:
    shape, text, values = written
    thought = thought.replace("<", "")
    message = fold(read([thought + text], [shape], thinking=True))
    if "</think>" in text:
        assert message.calls == ()
    else:
        assert [json.loads(call.arguments) for call in message.calls] == [values]
        assert (message.reasoning or "") == thought
