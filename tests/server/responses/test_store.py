"""Which responses are kept, how many, and that what is dropped is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.responses.items import Message
from server.api.responses.store import Kept, Store
from server.errors import PreviousResponseNotFound, UnknownResponse


def kept(number: int, *names: str, size: int = 10) -> Kept:
    items = tuple(Message.model_validate({"id": name, "role": "user", "content": name}) for name in names)
    return Kept({"id": f"resp_{number}"}, (), items, size)


def put(store: Store, response: Kept) -> None:
    store.began(response, lambda: None)
    store.ended(response)


def test_the_least_recently_used_goes_first() -> None:
    store = Store(2, 1000)
    put(store, kept(1))
    put(store, kept(2))
    store.previous("resp_1")
    put(store, kept(3))
    store.response("resp_1")
    with pytest.raises(UnknownResponse):
        store.response("resp_2")


def test_bytes_are_bounded_and_what_is_too_large_is_not_kept() -> None:
    store = Store(100, 100)
    for number, size in enumerate((60, 40, 101)):
        put(store, kept(number, size=size))
    assert store.response("resp_0").size + store.response("resp_1").size == 100
    with pytest.raises(UnknownResponse):
        store.response("resp_2")
    put(store, kept(3, size=61))
    with pytest.raises(UnknownResponse):
        store.response("resp_0")
    assert store.response("resp_3").size == 61


def test_an_item_is_found_for_as_long_as_any_response_holds_it() -> None:
    store = Store(10, 1000)
    put(store, kept(1, "a"))
    put(store, kept(2, "a", "b"))
    store.delete("resp_2")
    assert store.item("a") is not None
    assert store.item("b") is None
    store.delete("resp_1")
    assert store.item("a") is None


def test_a_response_that_runs_is_read_and_cancelled_but_not_gone_on_from() -> None:
    store, cancelled = Store(10, 1000), []
    store.began(kept(1), lambda: cancelled.append(1))
    assert store.response("resp_1").response["id"] == "resp_1"
    with pytest.raises(PreviousResponseNotFound):
        store.previous("resp_1")
    assert store.cancel("resp_1")
    assert cancelled == [1]
    store.ended(kept(1))
    assert not store.cancel("resp_1")
    assert cancelled == [1]


def test_a_response_that_was_deleted_while_it_ran_is_cancelled_and_not_kept_at_its_end() -> None:
    store, cancelled = Store(10, 1000), []
    store.began(kept(1), lambda: cancelled.append(1))
    store.delete("resp_1")
    assert cancelled == [1]
    store.ended(kept(1))
    with pytest.raises(UnknownResponse):
        store.response("resp_1")


def test_a_response_that_nobody_waited_for_is_forgotten_and_one_that_ended_is_not() -> None:
    store = Store(10, 1000)
    store.began(kept(1), lambda: None)
    store.left("resp_1")
    put(store, kept(2))
    store.left("resp_2")
    with pytest.raises(UnknownResponse):
        store.response("resp_1")
    assert store.response("resp_2").size == 10


PUTS = st.lists(st.tuples(st.integers(0, 5), st.lists(st.sampled_from("abc"), max_size=3), st.integers(1, 60)))


@given(PUTS, st.integers(0, 4))
def test_whatever_comes_the_store_is_within_its_bounds_and_finds_just_what_it_holds(
    puts: list[tuple[int, list[str], int]], most: int
) -> None:
    store, latest = Store(most, 100), {}
    for number, names, size in puts:
        put(store, kept(number, *names, size=size))
        latest[f"resp_{number}"] = names
        held = []
        for id_ in latest:
            try:
                held.append(store.response(id_))
            except UnknownResponse:
                continue
        assert len(held) <= most
        assert sum(response.size for response in held) <= 100
        named = {item.id for response in held for item in response.items}
        assert {name for name in "abc" if store.item(name) is not None} == named
