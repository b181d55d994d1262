"""The tokens of a content: their texts join to it, whatever was held back, cut or read as something else."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.decode.logprobs import Scored
from server.attribution import Attribution
from server.events import Content, Piece, Reasoning, Token
from server.transcript import Transcript
from tests.server.script import ScriptTokenizer, ids_of
from tools.laguna import Reader, fold
from tools.stops import Stops

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}}}}}]
WORDS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "f", "<arg_key>", "s", "</arg_key>", "<arg_value>",
         "</arg_value>", "\n", " ", "ö", "😀", "END", "E", "<", "<tool_", "</think"]  # fmt: skip


class Numbered:
    """An answer whose token number n has the log probability -n."""

    def __init__(self, *, thinking: bool = False, stops: tuple[str, ...] = (), one_call: bool = False) -> None:
        tokenizer = ScriptTokenizer()
        self.transcript = Transcript(
            tokenizer.decoder(),
            Stops(stops),
            Reader(TOOLS, thinking),
            one_call=one_call,
            attribution=Attribution(tokenizer.bytes_of),
        )

    def read(self, ids: tuple[int, ...], size: int, end: Literal["stop", "length"] = "stop") -> list[Piece]:
        pieces: list[Piece] = []
        scores = [Scored(-float(number), ((number % 256, -0.5),)) for number in range(len(ids))]
        for start in range(0, len(ids), size):
            if not self.transcript.stopped:
                pieces += self.transcript.push(ids[start : start + size], scores[start : start + size])
        return pieces + self.transcript.finish("stop" if self.transcript.stopped else end)


def tokens(pieces: list[Piece]) -> list[Token]:
    return [token for piece in pieces if isinstance(piece, Content) for token in piece.tokens]


def numbers(pieces: list[Piece]) -> list[int]:
    return [round(-token.logprob) for token in tokens(pieces)]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=30),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["stop", "length"]),
    st.integers(0, 3),
)
def test_the_tokens_of_every_content_join_to_it(
    words: list[str], size: int, thinking: bool, one_call: bool, end: Literal["stop", "length"], cut: int
) -> None:
    ids = ids_of("".join(words))
    ids = ids[: max(0, len(ids) - cut)]
    pieces = Numbered(thinking=thinking, stops=("END",), one_call=one_call).read(ids, size, end)
    for piece in pieces:
        if isinstance(piece, Content | Reasoning):
            assert "".join(token.text for token in piece.tokens) == piece.text
    told = numbers(pieces)
    assert told == sorted(told)
    again = Numbered(thinking=thinking, stops=("END",), one_call=one_call).read(ids, max(1, len(ids)), end)
    assert tokens(pieces) == tokens(again)


def test_each_token_has_its_own_number_text_and_bytes() -> None:
    pieces = Numbered(thinking=True).read(ids_of("hm</think>\nt<"), 2)
    assert fold(pieces).content == "\nt<"
    assert [(token.text, token.data, token.logprob) for token in tokens(pieces)] == [
        ("\n", b"\n", -3.0),
        ("t", b"t", -4.0),
        ("<", b"<", -5.0),
    ]
    assert tokens(pieces)[0].likeliest == ((b"\x03", -0.5),)


def test_a_character_of_several_tokens_is_written_by_the_last_and_all_have_their_bytes() -> None:
    pieces = Numbered().read(ids_of("aö😀"), 3)
    assert [token.text for token in tokens(pieces)] == ["a", "", "ö", "", "", "", "😀"]
    assert b"".join(token.data for token in tokens(pieces)) == "aö😀".encode()


def test_a_character_that_was_never_completed_is_its_last_tokens() -> None:
    pieces = Numbered().read(ids_of("a😀")[:-1], 9, "length")
    assert [token.text for token in tokens(pieces)] == ["a", "", "", "\ufffd"]
    assert [token.data for token in tokens(pieces)] == [b"a", b"\xf0", b"\x9f", b"\x98"]


@pytest.mark.parametrize("size", [1, 4, 99])
def test_what_a_stop_string_cut_has_no_tokens(size: int) -> None:
    pieces = Numbered(stops=("END",)).read(ids_of("abEENDcd"), size)
    assert numbers(pieces) == [0, 1, 2]


def test_a_part_of_a_token_counts_with_the_whole_tokens_number() -> None:
    attribution = Attribution(lambda id_: {1: b"Hello", 2: b" STOP and"}[id_])
    attribution.wrote(1, "Hello", Scored(-1.0, ()))
    attribution.wrote(2, " STOP and", Scored(-2.0, ()))
    assert attribution.shown("Hello ", 6) == (Token("Hello", b"Hello", -1.0), Token(" ", b" ", -2.0))


@pytest.mark.parametrize("size", [1, 3, 99])
def test_reasoning_and_calls_have_no_tokens_and_broken_calls_have_theirs(size: int) -> None:
    call = "<tool_call>f<arg_key>s</arg_key><arg_value>ab</arg_value></tool_call>"
    ids = ids_of("ab</think>a" + call + "b<tool_call>f a</tool_call>")
    pieces = Numbered(thinking=True).read(ids, size)
    after = len(ids_of("ab</think>a" + call))
    assert fold(pieces).content == "ab<tool_call>f a</tool_call>"
    assert numbers(pieces) == [3, *range(after, len(ids))]


def test_white_space_from_before_a_call_goes_to_the_next_token() -> None:
    pieces = Numbered().read(ids_of("\n\n<tool_call>f</tool_call>!"), 1)
    assert [(token.text, token.data) for token in tokens(pieces)] == [("\n\n!", b"\n\n!")]
