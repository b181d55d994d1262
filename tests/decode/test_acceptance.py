import pytest

from models.decode.acceptance import PRIOR, Acceptance, Record, Subject

THINKING, ANSWER = Subject("speculator", "thinking"), Subject("speculator", "answer")


def judged(acceptance: Acceptance, blocks: int, drafted: int, agreed: int) -> Acceptance:
    for _ in range(blocks):
        acceptance = acceptance.after(drafted, agreed)
    return acceptance


def test_expected_tokens_follow_acceptance_by_depth() -> None:
    acceptance = Acceptance.of([0.5, 0.25])
    assert [acceptance.expected(rows) for rows in (1, 2, 3)] == [1, 1.5, 1.625]
    assert acceptance.expected(4) == 1.625 + 0.5 * 0.25 * 0.25
    assert Acceptance().expected(3) == pytest.approx(1 + PRIOR + PRIOR**2)


def test_acceptance_is_learned_up_to_the_first_refusal() -> None:
    rates = judged(Acceptance(), 200, 5, 2).rates
    assert min(rates[:2]) > 0.99
    assert rates[2] < 0.01
    assert len(rates) == 3


def test_a_change_is_noticed_after_a_few_blocks_both_ways() -> None:
    good = judged(Acceptance(), 100, 4, 4)
    assert judged(good, 6, 4, 0).rates[0] < 0.4
    bad = judged(Acceptance(), 100, 4, 0)
    assert judged(bad, 6, 4, 4).rates[0] > 0.7


def test_a_single_unlucky_block_changes_little() -> None:
    usual = Acceptance()
    for agreed in (4, 2, 4, 1, 4, 3) * 10:
        usual = usual.after(4, agreed)
    assert abs(usual.after(4, 0).rates[0] - usual.rates[0]) < 0.06


def test_depths_that_are_not_tried_any_more_are_believed_less_and_less() -> None:
    unlucky = judged(judged(Acceptance(), 50, 2, 2), 3, 4, 2)
    assert unlucky.rates[2] < 0.4
    assert judged(unlucky, 100, 2, 2).rates[2] > 0.9


def test_what_was_last_seen_gives_way_to_the_long_run_while_nothing_is_drafted() -> None:
    turned = judged(judged(Acceptance(), 100, 3, 3), 6, 3, 0)
    assert turned.rates[0] < 0.4
    for _ in range(300):
        turned = turned.idle()
    assert turned.rates[0] > 0.8


def test_phases_and_sources_are_learned_apart() -> None:
    record = Record()
    for _ in range(50):
        record = record.after(THINKING, 3, 0).after(ANSWER, 3, 3).after(Subject("copy", "answer"), 3, 1)
    assert record.of(THINKING).rates[0] < 0.05
    assert record.of(ANSWER).rates[0] > 0.95
    assert record.of(Subject("copy", "answer")).rates[1] < 0.05
    assert record.of(Subject("prediction", "answer")) == Acceptance()


def test_a_phase_never_seen_starts_like_another_and_changes_quickly() -> None:
    record = Record()
    for _ in range(50):
        record = record.after(THINKING, 3, 0)
    start = record.of(ANSWER)
    assert start.rates == record.of(THINKING).rates
    assert start.after(3, 3).rates[0] > 0.3


def test_a_new_request_starts_from_the_record_and_changes_quickly() -> None:
    old = Record({ANSWER: judged(Acceptance(), 300, 3, 3)})
    new = old.handed_on()
    assert new.of(ANSWER).rates == old.of(ANSWER).rates
    assert new.of(ANSWER).after(3, 0).rates[0] < old.of(ANSWER).after(3, 0).rates[0]
