import pytest

from models.decode.costs import Costs, bucket


def test_contexts_fall_into_buckets_that_double() -> None:
    assert [bucket(tokens) for tokens in (0, 1023, 1024, 2047, 2048, 4096, 131072)] == [0, 0, 1, 1, 2, 3, 8]


def test_costs_between_and_beyond_measured_rows_lie_on_lines() -> None:
    prices = Costs({("plain", 0): {1: 1.0}, ("drafted", 0): {4: 2.0, 8: 3.0}}).at(0)
    assert prices.seconds("plain", 1) == 1.0
    assert prices.seconds("plain", 3) is None
    assert prices.seconds("drafted", 4) == 2.0
    assert prices.seconds("drafted", 6) == 2.5
    assert prices.seconds("drafted", 3) == pytest.approx(1 + 2 / 3)
    assert prices.seconds("drafted", 16) == 5.0
    assert Costs({("plain", 0): {1: 1.0}}).at(0).seconds("drafted", 4) is None
    assert Costs({("drafted", 0): {4: 2.0}}).at(0).seconds("drafted", 8) == 4.0


def test_known_drafts_cost_what_the_speculators_do_until_they_are_measured() -> None:
    costs = Costs({("plain", 0): {1: 1.0}, ("drafted", 0): {4: 2.0}})
    assert costs.at(0).seconds("given", 4) == 2.0
    assert costs.after("given", 4, 0, 1.5).at(0).seconds("given", 4) == 1.5
    assert costs.after("given", 4, 0, 1.5).at(0).seconds("drafted", 4) == 2.0


def test_a_longer_context_costs_what_the_nearest_shorter_one_did_and_never_less_than_fewer_rows_here() -> None:
    costs = Costs({("drafted", 0): {4: 1.0, 8: 2.0}, ("drafted", 1): {4: 1.5, 8: 3.0}, ("plain", 0): {1: 0.5}})
    assert costs.at(3).drafted == {1: 0.5, 4: 1.5, 8: 3.0}
    assert costs.after("drafted", 4, 3, 4.0).at(3).drafted == {1: 0.5, 4: 4.0, 8: 4.0}


def test_plain_decoding_is_never_guessed_from_longer_contexts() -> None:
    costs = Costs({("plain", 2): {1: 3.0}, ("drafted", 2): {4: 5.0}})
    assert costs.at(0).plain == {}
    assert costs.at(0).drafted == {4: 5.0}
    assert costs.at(5).plain == {1: 3.0}


def test_the_median_of_recent_rounds_counts() -> None:
    costs = Costs()
    for seconds in (1.0, 1.1, 50.0, 1.2, 0.9):
        costs = costs.after("plain", 1, 0, seconds)
    assert costs.at(0).plain == {1: 1.1}
    for _ in range(40):
        costs = costs.after("plain", 1, 0, 2.0)
    assert costs.at(0).plain == {1: 2.0}


def test_where_plain_rounds_got_faster_so_did_what_was_measured_beside_the_slow_ones() -> None:
    busy = Costs().after("plain", 1, 0, 3.0).after("drafted", 4, 0, 4.5)
    assert busy.at(0).seconds("drafted", 4) == 4.5
    quiet = busy
    for _ in range(2):
        quiet = quiet.after("plain", 1, 0, 1.0)
    assert quiet.at(0).seconds("drafted", 4) == 1.5
    assert quiet.after("drafted", 4, 0, 1.7).after("drafted", 4, 0, 1.7).at(0).seconds("drafted", 4) == 1.7


def test_where_plain_rounds_got_slower_nothing_is_said_of_others() -> None:
    costs = Costs().after("plain", 1, 0, 1.0).after("drafted", 4, 0, 1.5)
    for _ in range(2):
        costs = costs.after("plain", 1, 0, 3.0)
    assert costs.at(0).seconds("drafted", 4) == 1.5
