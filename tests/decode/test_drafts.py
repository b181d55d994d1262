from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from models.decode.acceptance import Phase
from models.decode.drafts import READ_AT_ONCE, RUN, Copies, Guesses, Prediction

IDS = st.lists(st.integers(0, 3), max_size=60)
OPEN, CLOSE, CALL = 90, 91, 92


def read(text: Sequence[int]) -> Copies:
    copies = Copies()
    for token in text:
        copies.extend([token])
    return copies


def followed(prediction: Sequence[int], answer: Sequence[int]) -> Prediction:
    own = Prediction(prediction)
    own.restart()
    for token in answer:
        own.push(token)
    return own


def guesses(prediction: Sequence[int] = (), *, thinking: bool = False) -> Guesses:
    marks: dict[int, Phase] = {OPEN: "thinking", CLOSE: "answer", CALL: "arguments"}
    return Guesses(prediction, "thinking" if thinking else "answer", marks)


def test_a_text_that_runs_as_before_is_copied_from_there() -> None:
    assert read([1, 2, 3, 4, 5, 9, 1, 2, 3]).ahead(4) == (4, 5, 9, 1)
    assert read([1, 2, 3, 4, 5, 9, 1, 2]).ahead(4) == ()
    assert read([1, 2, 3, 4, 5, 9, 7, 2, 3]).ahead(4) == ()


def test_the_most_recent_place_is_copied_and_followed_while_it_agrees() -> None:
    text = [1, 2, 3, 4, 8, 1, 2, 3, 5, 6, 1, 2, 3]
    assert read(text).ahead(2) == (5, 6)
    assert read([*text, 5]).ahead(1) == (6,)
    assert read([*text, 5]).agreed == RUN + 1
    assert read([*text, 4]).ahead(1) == (8,)


def test_a_repetition_goes_on_repeating() -> None:
    assert read([7, 8, 7, 8, 7]).ahead(5) == (8, 7, 8, 7, 8)
    assert read([5, 5, 5, 5]).ahead(3) == (5, 5, 5)


@given(IDS, st.integers(1, 8))
def test_what_is_copied_did_follow_the_same_run_before(text: list[int], count: int) -> None:
    copies = read(text)
    ahead = copies.ahead(count)
    tail = text[-RUN:]
    earlier = [i for i in range(RUN, len(text)) if text[i - RUN : i] == tail]
    assert bool(ahead) == bool(earlier and len(text) >= RUN)
    if ahead:
        whole = [*text, *ahead]
        assert len(ahead) == count
        assert any(whole[i : i + count] == list(ahead) for i in earlier)


def test_a_prediction_is_followed_from_its_start() -> None:
    assert followed([1, 2, 3, 4], []).ahead(2) == (1, 2)
    own = followed([1, 2, 3, 4], [1, 2])
    assert (own.ahead(9), own.accepted, own.rejected) == ((3, 4), 2, 2)
    assert followed([1, 2, 3, 4], [1, 2, 3, 4]).ahead(3) == ()


def test_a_prediction_waits_for_two_ids_that_it_leaves_out_at_its_start() -> None:
    assert followed([1, 2, 3], [9, 9]).ahead(2) == (1, 2)
    assert followed([1, 2, 3], [9, 9, 1]).ahead(2) == (2, 3)
    assert followed([1, 2, 3], [9, 9, 9]).ahead(2) == ()
    assert followed([1, 2, 3], [1, 9]).ahead(2) == ()


def test_after_a_difference_it_is_followed_from_where_the_latest_ids_are_ahead() -> None:
    prediction = [1, 2, 3, 10, 11, 12, 4, 5, 1, 2, 3, 20]
    assert followed(prediction, [1, 2, 3, 9]).ahead(2) == ()
    assert followed(prediction, [1, 2, 3, 9, 10, 11]).ahead(2) == ()
    own = followed(prediction, [1, 2, 3, 9, 10, 11, 12])
    assert (own.ahead(2), own.accepted) == ((4, 5), 6)
    assert followed(prediction, [1, 2, 3, 9, 1, 2, 3]).ahead(1) == (20,)


def test_a_place_behind_is_taken_when_none_is_ahead_and_no_id_counts_twice() -> None:
    own = followed([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 1, 2, 3])
    assert (own.ahead(2), own.accepted, own.rejected) == ((4, 5), 5, 0)


@given(IDS, IDS)
def test_accepted_and_rejected_ids_are_the_prediction(prediction: list[int], answer: list[int]) -> None:
    own = followed(prediction, answer)
    assert own.accepted + own.rejected == len(prediction)
    assert own.accepted <= len(answer) * RUN
    assert followed(prediction, prediction).rejected == 0


def test_a_prediction_waits_for_the_end_of_the_thinking() -> None:
    own = guesses([5, 6, 7], thinking=True)
    assert own.proposals(0, 3) == []
    own.emitted([1, 2, CLOSE])
    assert own.phase == "answer"
    (proposal,) = own.proposals(99, 3)
    assert (proposal.ids, proposal.subject) == ((5, 6, 7), ("prediction", "answer", False))
    assert own.predicted() == (0, 3)


def test_a_phase_begins_after_its_mark() -> None:
    own = guesses()
    phases = []
    for token in (1, OPEN, 2, CLOSE, CALL, 3):
        own.emitted([token])
        phases.append(own.phase)
    assert phases == ["answer", "thinking", "thinking", "answer", "arguments", "arguments"]


def test_a_run_that_was_long_foretold_is_judged_apart() -> None:
    own = guesses(range(20))
    own.emitted(range(7))
    assert not own.proposals(99, 1)[0].subject.trusted
    own.emitted([7])
    assert own.proposals(99, 1)[0].subject.trusted


def test_the_context_is_read_in_pieces_and_proposes_nothing_before_its_end() -> None:
    text, asked = [1, 2, 3, 4] * READ_AT_ONCE, []

    def tokens(start: int, stop: int) -> Iterator[int]:
        asked.append(stop - start)
        return iter(text[start:stop])

    own = guesses()
    for _ in range(4):
        assert own.proposals(len(text), 2) == []
        own.read(tokens, len(text))
    assert asked == [READ_AT_ONCE] * 4
    (proposal,) = own.proposals(len(text), 2)
    assert (proposal.subject.source, proposal.ids) == ("copy", (1, 2))


def test_nothing_predicted_is_nothing_counted() -> None:
    assert guesses().predicted() == (0, 0)
