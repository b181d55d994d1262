"""What the embedded pair is said to reach, on a part of the held-out chats."""

from models.runtime import load_runtime
from models.tiny.recipe.score import score, with_block


def test_held_out_turns_are_written_exactly_and_most_drafts_are_accepted() -> None:
    figures = score(with_block(load_runtime(), 8), 16)
    assert figures.turns["calls"] >= 15
    assert figures.turns["others"] >= 20
    assert figures.exact["calls"] >= 0.95 * figures.turns["calls"]
    assert figures.exact["others"] >= 0.95 * figures.turns["others"]
    assert figures.accepted >= 4.5 * figures.rounds
