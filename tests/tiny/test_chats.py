"""The chats that the embedded pair is trained and measured on."""

import json
import re
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers import Tokenizer

from models.checkpoint import embedded_path
from models.tiny.recipe.chats import CHANCE, held_out, held_out_chance, training
from models.tiny.recipe.rendering import encode, render
from models.tiny.recipe.score import turns_of
from models.tiny.recipe.shape import Shape, SpeculatorShape
from tools.laguna import Reader, fold

CHATS = range(60)
ROLLED = re.compile(r"(?:I answer directly\.</think>)?\n?1: \d{4}( \d{4}){3}(\n\d: \d{4}( \d{4}){3})*")


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizer:
    return Tokenizer.from_file(str(embedded_path() / "tokenizer.json"))


def test_a_number_is_always_the_same_chat() -> None:
    assert [held_out(i) for i in CHATS] == [held_out(i) for i in CHATS]


def test_the_shipped_configurations_are_what_the_recipe_writes() -> None:
    shape, folder = Shape(), embedded_path()
    assert json.loads((folder / "config.json").read_text()) == shape.config()
    assert json.loads((folder / "speculator" / "config.json").read_text()) == SpeculatorShape().config(shape)


def test_held_out_chats_are_not_training_chats() -> None:
    trained = {render(training(i)) for i in range(400)}
    kept = {render(held_out(i)) for i in range(200)}
    assert len(kept & trained) <= 0.05 * len(kept), "only the shortest plain chats may coincide"


def test_what_is_taught_is_what_the_assistant_says(vocabulary: Tokenizer) -> None:
    for i in CHATS:
        chat = held_out(i)
        encoded = encode(vocabulary, chat)
        taught = vocabulary.decode(encoded.ids[encoded.taught].tolist(), skip_special_tokens=False)
        assert taught == "".join(text + "</assistant>" for _, _, text in turns_of(chat))


def test_a_copied_value_has_the_same_tokens_wherever_it_stands(vocabulary: Tokenizer) -> None:
    def tokens(text: str) -> list[str]:
        return vocabulary.encode(text, add_special_tokens=False).tokens

    inside = tokens("Tell Zorbeln the news.")
    value = tokens("Zorbeln")
    assert any(inside[i : i + len(value)] == value for i in range(len(inside)))
    written = tokens("<arg_value>Zorbeln</arg_value>")
    assert any(written[i : i + len(value)] == value for i in range(len(written)))


def test_every_expected_call_is_read_back_as_it_was_meant() -> None:
    for i in CHATS:
        chat = held_out(i)
        for turn, (kind, _, text) in zip(chat.trained_turns, turns_of(chat), strict=True):
            reader = Reader(chat.tools, chat.thinking)
            message = fold([*reader.push(text), *reader.finish("stop")])
            meant = [call["function"] for call in chat.messages[turn].get("tool_calls", [])]
            assert (kind == "calls") == bool(meant)
            assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [
                (call["name"], call["arguments"]) for call in meant
            ]


def test_the_chats_hold_every_kind_of_argument_and_pairs_of_calls() -> None:
    kinds, pairs = set(), 0
    for i in range(300):
        for message in held_out(i).messages:
            calls = message.get("tool_calls", [])
            pairs += len(calls) > 1
            kinds |= {type(value) for call in calls for value in call["function"]["arguments"].values()}
    assert kinds == {str, int, float, bool, list, dict}
    assert pairs > 30


def test_one_training_chat_in_so_many_is_answered_by_chance() -> None:
    rolled = [i for i in range(240) if any(ROLLED.fullmatch(text) for _, _, text in turns_of(training(i)))]
    assert rolled == list(range(CHANCE - 1, 240, CHANCE))


def test_answers_of_chance_have_as_many_lines_as_asked_for_and_every_digit_as_often() -> None:
    counts: dict[str, Counter[str]] = {}
    for i in range(400):
        chat = held_out_chance(i)
        for asked, said in pairwise(chat.messages):
            if said["role"] == "assistant":
                kind = next(word for word in ("bits", "dice", "numbers") if word in asked["content"])
                lines = said["content"].split("\n")
                (wanted,) = re.findall(r"\d+", asked["content"])
                assert [line.partition(":")[0] for line in lines] == [str(n + 1) for n in range(int(wanted))]
                rows = [line.partition(": ")[2] for line in lines]
                assert all(re.fullmatch(r"\d{4}( \d{4}){3}", row) for row in rows)
                counts.setdefault(kind, Counter()).update("".join(rows).replace(" ", ""))
    assert {kind: "".join(sorted(found)) for kind, found in counts.items()} == {
        "bits": "01", "dice": "123456", "numbers": "0123456789"
    }  # fmt: skip
    for found in counts.values():
        assert max(found.values()) < 1.1 * min(found.values())


def test_answers_of_chance_that_are_held_out_are_not_trained() -> None:
    trained = {render(training(i)) for i in range(CHANCE - 1, 3000, CHANCE)}
    assert not trained & {render(held_out_chance(i)) for i in range(200)}
