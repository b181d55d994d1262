"""Stop strings: where they cut, and what waits for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.stops import EmptyStop, Stops


def run(strings: list[str], *chunks: str) -> tuple[str, bool]:
    stops, shown = Stops(strings), ""
    for chunk in chunks:
        text, hit = stops.push(chunk)
        shown += text
        if hit:
            return shown, True
    return shown + stops.finish(), False


def test_nothing_stops_without_stop_strings() -> None:
    assert Stops([]).push("text") == ("text", False)
    assert run([], "a", "b") == ("ab", False)


def test_a_stop_string_is_met_across_pushes() -> None:
    assert run(["five"], "four, f", "iv", "e, six") == ("four, ", True)


def test_only_a_real_prefix_is_held_back() -> None:
    stops = Stops(["END"])
    assert stops.push("the E") == ("the ", False)
    assert stops.push("N") == ("", False)
    assert stops.push("EN") == ("EN", False)
    assert stops.push("x") == ("ENx", False)
    assert stops.finish() == ""


def test_what_was_held_is_shown_if_the_model_ends() -> None:
    assert run(["TROIS\nQUATRE"], "DEUX TROIS") == ("DEUX TROIS", False)


def test_nothing_is_shown_after_a_stop_string() -> None:
    stops = Stops(["x"])
    assert stops.push("axb") == ("a", True)
    assert stops.push("c") == ("", True)
    assert stops.finish() == ""


def test_the_stop_string_that_is_complete_first_wins() -> None:
    assert run(["abcd", "bc"], "xabcd") == ("xa", True)
    assert run(["two", "one"], "one two") == ("", True)


def test_of_those_complete_at_once_the_longest_wins() -> None:
    assert run(["d", "cd"], "abcd") == ("ab", True)


def test_a_stop_string_that_overlaps_itself_is_found() -> None:
    assert run(["aab"], "aaaab") == ("aa", True)
    assert run(["abab"], *"abaabab") == ("aba", True)


def test_the_stop_string_that_was_met_is_told() -> None:
    stops = Stops(["ab", "b", "zab"])
    assert stops.push("xa") == ("x", False)
    assert stops.met is None
    assert stops.push("b") == ("", True)
    assert stops.met == "ab"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(EmptyStop, match="at least one character"):
        Stops(["a", ""])


small = st.text(alphabet="ab\n", max_size=12)


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), max_size=4), st.lists(small, max_size=5))
def test_cutting_never_matters_and_a_plain_search_agrees(strings: list[str], chunks: list[str]) -> None:
    text = "".join(chunks)
    assert run(strings, *chunks) == run(strings, *text) == run(strings, text) == _searched(strings, text)


def _searched(strings: list[str], text: str) -> tuple[str, bool]:
    for end in range(1, len(text) + 1):
        found = [stop for stop in strings if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), min_size=1, max_size=3), small)
def test_no_more_waits_than_could_begin_a_stop_string(strings: list[str], text: str) -> None:
    stops = Stops(strings)
    shown, hit = stops.push(text)
    held = text[len(shown) :]
    assert hit or not held or any(stop.startswith(held) for stop in strings)
