"""Ids to text across any cut, text to ids, and which ids end a turn."""

import itertools
import json
import logging
import threading
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from models.config_fields import ConfigError
from models.tokenizer import TextDecoder, Tokenizer, TokenizerError
from tests.runtime.checkpoint_files import MARKERS, SPECIALS, byte_level_bpe, write_json, write_tokenizer

BPE = byte_level_bpe()
VOCABULARY = BPE.get_vocab(with_added_tokens=True)
IDS = st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=40)


def pieces(decoder: TextDecoder, ids: list[int], cuts: list[int]) -> list[str]:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(ids)), len(ids)]
    return [decoder.push(ids[a:b]) for a, b in itertools.pairwise(bounds)] + [decoder.finish()]


@given(ids=IDS, cuts=st.lists(st.integers(0, 40)))
def test_pieces_join_to_the_decoding_of_the_whole_at_any_cut(
    one_line: Tokenizer, ids: list[int], cuts: list[int]
) -> None:
    assert "".join(pieces(one_line.decoder(), ids, cuts)) == BPE.decode(ids, skip_special_tokens=False)


@given(text=st.text(), cuts=st.lists(st.integers(0, 40)))
def test_text_survives_the_way_there_and_back(one_line: Tokenizer, text: str, cuts: list[int]) -> None:
    assert "".join(pieces(one_line.decoder(), one_line.encode(text), cuts)) == text


@given(text=st.text(alphabet="aé☕👩‍🚀🇳🇴"))
def test_no_piece_ever_shows_half_a_character(one_line: Tokenizer, text: str) -> None:
    decoder = one_line.decoder()
    so_far = ""
    for id_ in one_line.encode(text):
        so_far += decoder.push([id_])
        assert text.startswith(so_far)
    assert so_far == text


def test_an_emoji_of_four_tokens_comes_out_with_the_last(one_line: Tokenizer) -> None:
    ids = one_line.encode("🚀")
    decoder = one_line.decoder()
    assert len(ids) == 4
    assert [decoder.push([id_]) for id_ in ids] == ["", "", "", "🚀"]
    assert decoder.finish() == ""


def test_a_cut_off_character_is_flushed_exactly_once(one_line: Tokenizer) -> None:
    decoder = one_line.decoder()
    assert decoder.push(one_line.encode("a🚀")[:-1]) == "a"
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""


@pytest.mark.parametrize("marker", [*SPECIALS, *MARKERS])
def test_added_tokens_are_single_and_come_out_as_literal_text(one_line: Tokenizer, marker: str) -> None:
    assert one_line.encode(marker) == [VOCABULARY[marker]]
    assert one_line.decoder().push([VOCABULARY[marker]]) == marker


def test_an_added_token_in_byte_alphabet_letters_is_still_its_own_text(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    bpe.add_tokens(["<é>"])
    bpe.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.encode("<é>") == [len(VOCABULARY)]
    assert tokenizer.decoder().push([len(VOCABULARY)]) == "<é>"


@pytest.mark.parametrize("step", [{"x": 1}, 3, None, {"type": "Metaspace"}])
def test_a_decoder_with_a_step_of_another_form_is_refused(tmp_path: Path, step: object) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    steps = {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, step]}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder": steps}))
    with pytest.raises(TokenizerError, match="the decoder must be ByteLevel"):
        Tokenizer.load(tmp_path)


def test_an_id_without_a_token_says_nothing(one_line: Tokenizer) -> None:
    decoder = one_line.decoder()
    assert one_line.vocab_size == len(VOCABULARY)
    assert decoder.push([one_line.vocab_size, *one_line.encode("a"), -1, 10**9]) == "a"


def test_the_opening_token_is_not_doubled(one_line: Tokenizer) -> None:
    opening = VOCABULARY["〈|EOS|〉"]
    assert BPE.encode("x").ids.count(opening) == 1
    assert one_line.encode(one_line.render([{"role": "user", "content": "x"}])).count(opening) == 1


def test_half_a_surrogate_pair_is_read_as_the_replacement_character(one_line: Tokenizer) -> None:
    assert one_line.encode("a\ud800b") == one_line.encode("a\ufffdb")
    argument = {"function": {"name": "f", "arguments": '{"a": "\\udc00"}'}}
    assert one_line.encode(one_line.render([{"role": "assistant", "tool_calls": [argument]}]))


def test_other_threads_run_while_a_long_text_is_encoded(one_line: Tokenizer) -> None:
    ticks = itertools.count()
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            next(ticks)

    thread = threading.Thread(target=tick)
    thread.start()
    before = next(ticks)
    ids = one_line.encode("What is the weather in Oslo? " * 20_000)
    passed = next(ticks) - before
    over.set()
    thread.join()
    assert len(ids) > 100_000
    assert passed > 5


def test_a_length_limit_in_the_file_does_not_cut_prompts(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    bpe.enable_truncation(4)
    bpe.enable_padding(length=8)
    bpe.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.decoder().push(tokenizer.encode("no limit here at all")) == "no limit here at all"
    assert len(tokenizer.encode("🚀")) == 4


def test_eos_ids_are_the_union_of_all_that_name_one(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_tokenizer(tmp_path, eos_token="〈|PAD|〉"), eos_ids=[7, 8])
    assert tokenizer.eos_ids == {7, 8, VOCABULARY["〈|PAD|〉"], VOCABULARY["</assistant>"]}


def test_eos_ids_need_no_config(one_line: Tokenizer) -> None:
    assert one_line.eos_ids == {VOCABULARY["〈|EOS|〉"], VOCABULARY["</assistant>"]}


@pytest.mark.parametrize(
    ("stated", "said"), [("glm47", True), ("laguna", False), ("poolside_v1", False), (None, False)]
)
def test_a_tool_parser_of_another_dialect_is_not_used_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stated: str | None, said: bool
) -> None:
    with caplog.at_level(logging.INFO):
        Tokenizer.load(write_tokenizer(tmp_path, tool_parser_type=stated))
    assert (f"tool_parser_type '{stated}' is not used: Laguna's own reader is" in caplog.text) is said


def test_a_vocabulary_that_nothing_can_end_is_refused(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, eos_token=None)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["content"] != "</assistant>"]
    write_json(folder / "tokenizer.json", spec)
    with pytest.raises(TokenizerError, match=r"nothing in .* says which token ends a turn"):
        Tokenizer.load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_tokenizer(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=rf"{name} is 'missing'"):
        Tokenizer.load(folder)


def test_a_file_that_is_not_an_object_is_refused(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    (folder / "tokenizer_config.json").write_text("[]", "utf-8")
    with pytest.raises(ConfigError, match="must be one JSON object"):
        Tokenizer.load(folder)


def test_a_vocabulary_that_is_not_byte_level_is_refused(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    write_json(folder / "tokenizer.json", spec | {"decoder": {"type": "Metaspace", "replacement": "_"}})
    with pytest.raises(TokenizerError, match="must be ByteLevel"):
        Tokenizer.load(folder)


def test_a_sequence_that_holds_a_byte_level_decoder_is_accepted(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    spec["decoder"] = {"type": "Sequence", "decoders": [spec["decoder"]]}
    write_json(folder / "tokenizer.json", spec)
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.decoder().push(tokenizer.encode("naïve ☕")) == "naïve ☕"


def test_ten_thousand_tokens_one_by_one_are_decoded_in_linear_time(one_line: Tokenizer) -> None:
    ids = one_line.encode("What is the weather in Oslo? ☕ ") * 1000
    decoder = one_line.decoder()
    assert "".join(decoder.push([id_]) for id_ in ids) == "What is the weather in Oslo? ☕ " * 1000
