from hypothesis import given
from hypothesis import strategies as st

from models.decode.speculate import Kept, agreed, keep

IDS = st.integers(0, 5)


def test_the_agreed_prefix_ends_at_the_first_difference() -> None:
    assert agreed([1, 2, 3], [1, 2, 4, 9]) == 2
    assert agreed([1, 2, 3], [1, 2, 3, 9]) == 3
    assert agreed([7, 2, 3], [1, 2, 3, 9]) == 0
    assert agreed([], [4]) == 0


def test_agreed_drafts_and_the_targets_own_next_id_are_kept() -> None:
    assert keep([1, 2, 3], [1, 2, 8, 9], frozenset(), 10) == Kept((1, 2, 8), 3, 2, None)
    assert keep([1, 2, 3], [1, 2, 3, 9], frozenset(), 10) == Kept((1, 2, 3, 9), 4, 3, None)
    assert keep([], [5], frozenset(), 10) == Kept((5,), 1, 0, None)


def test_nothing_after_a_stop_id_is_kept_and_the_stop_id_is_not_fed() -> None:
    assert keep([1, 0, 3], [1, 0, 3, 9], frozenset({0}), 10) == Kept((1,), 2, 3, "stop")
    assert keep([0, 1], [0, 1, 2], frozenset({0}), 10) == Kept((), 1, 2, "stop")
    assert keep([1, 2], [1, 0, 5], frozenset({0}), 10) == Kept((1,), 2, 1, "stop")


def test_the_budget_cuts_inside_a_block() -> None:
    assert keep([1, 2, 3], [1, 2, 3, 9], frozenset(), 2) == Kept((1, 2), 2, 3, "length")
    assert keep([1, 2, 0], [1, 2, 0, 9], frozenset({0}), 2) == Kept((1, 2), 2, 3, "length")
    assert keep([1, 0, 3], [1, 0, 3, 9], frozenset({0}), 2) == Kept((1,), 2, 3, "stop")


@given(st.lists(IDS, max_size=15), st.data(), st.frozensets(IDS, max_size=2), st.integers(1, 20))
def test_what_is_kept_is_what_a_plain_loop_over_the_drawn_ids_would_keep(
    draft: list[int], data: st.DataObject, stops: frozenset[int], budget: int
) -> None:
    drawn = data.draw(st.lists(IDS, min_size=len(draft) + 1, max_size=len(draft) + 1))
    kept = keep(draft, drawn, stops, budget)
    ids: list[int] = []
    finish = None
    for place, token in enumerate(drawn):
        if token in stops:
            finish = "stop"
            break
        ids.append(token)
        if len(ids) == budget:
            finish = "length"
            break
        if place == len(draft) or draft[place] != token:
            break
    assert (list(kept.ids), kept.finish) == (ids, finish)
    assert kept.rows == len(ids) + (finish == "stop")
    assert kept.accepted <= len(ids)
