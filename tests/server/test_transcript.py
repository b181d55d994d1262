"""Ids to events, without a thread or a socket."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.events import Content, Piece, Reasoning
from server.generation import Transcript
from tests.server.script import ScriptTokenizer, ids_of
from tools.laguna import Message, Reader, fold
from tools.stops import Stops

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}}}}}]
WORDS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "f", "<arg_key>", "s", "</arg_key>", "<arg_value>",
         "</arg_value>", "\n", " ", "ö", "😀", "END", "E"]  # fmt: skip


def transcript(*, thinking: bool = False, stops: tuple[str, ...] = ()) -> Transcript:
    return Transcript(ScriptTokenizer().decoder(), Stops(stops), Reader(TOOLS, thinking))


def read(
    ids: tuple[int, ...], sizes: list[int], *, thinking: bool, end: Literal["stop", "length"]
) -> tuple[list[Piece], Transcript]:
    """All pieces of `ids` that came in blocks of these sizes, over and over."""
    told = transcript(thinking=thinking, stops=("END",))
    pieces: list[Piece] = []
    start = turn = 0
    while start < len(ids) and not told.stopped:
        size = sizes[turn % len(sizes)]
        pieces += told.push(ids[start : start + size])
        start, turn = start + size, turn + 1
    return pieces + told.finish("stop" if told.stopped else end), told


@given(
    st.lists(st.sampled_from(WORDS), max_size=30),
    st.lists(st.integers(1, 16), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["stop", "length"]),
)
def test_blocks_never_matter_and_counts_stay_in_bounds(
    words: list[str], sizes: list[int], thinking: bool, end: Literal["stop", "length"]
) -> None:
    ids = ids_of("".join(words))
    pieces, told = read(ids, sizes, thinking=thinking, end=end)
    whole, again = read(ids, [max(1, len(ids))], thinking=thinking, end=end)
    assert fold(pieces) == fold(whole)
    assert (told.completion_tokens, told.reasoning_tokens) == (again.completion_tokens, again.reasoning_tokens)
    assert 0 <= told.reasoning_tokens <= told.completion_tokens <= len(ids)
    assert told.reason(end) == again.reason(end)
    assert not any(isinstance(piece, Content | Reasoning) and not piece.text for piece in pieces)


def test_a_block_of_tokens_is_one_piece() -> None:
    assert transcript().push(ids_of("hello")) == [Content("hello")]


def test_ids_after_a_stop_string_do_not_count() -> None:
    told = transcript(thinking=True, stops=("END",))
    assert told.push(ids_of("abENDcdefgh")) == [Reasoning("ab")]
    assert told.finish("stop") == []
    assert (told.completion_tokens, told.reasoning_tokens, told.stopped) == (5, 2, True)


@pytest.mark.parametrize("end", ["stop", "length"])
def test_tokens_are_reasoning_when_their_text_is_shown_as_such(end: Literal["stop", "length"]) -> None:
    told = transcript(thinking=True)
    pieces = told.push(ids_of("abc</think>xy")) + told.finish(end)
    assert fold(pieces) == Message("abc", "xy", ())
    assert told.reasoning_tokens == 3
    assert told.reason(end) == end


def test_a_call_inside_thinking_that_counts_is_not_reasoning() -> None:
    told = transcript(thinking=True)
    call = "<tool_call>f<arg_key>s</arg_key><arg_value>v</arg_value></tool_call>"
    message = fold(told.push(ids_of("abc" + call)) + told.finish("stop"))
    assert [made.name for made in message.calls] == ["f"]
    assert told.reasoning_tokens == 3
    assert told.reason("stop") == "tool_calls"
