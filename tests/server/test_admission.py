"""Memory decides how long a conversation may be and how many run at once; what does not fit yet waits."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.decode.request import Request, Sampling
from models.runtime import load_runtime
from server.admission import EXPECTED, Room, kept_bytes, room
from server.served import served
from server.settings import Settings
from tests.server.script import ScriptPair, says
from tests.server.stand import stand


def asked(prompt: int, max_tokens: int) -> Request:
    return Request((1,) * prompt, Sampling(), max_tokens, frozenset())


def test_the_longest_conversation_is_the_longest_that_fits() -> None:
    space = Room(1000, lambda tokens: 100 + 3 * tokens)
    assert space.longest(10_000, space.session_bytes) == 300
    assert space.longest(200, space.session_bytes) == 200
    assert Room(50, space.session_bytes).longest(200, space.session_bytes) == 0


def test_a_request_joins_where_all_expected_tokens_fit_and_always_when_alone() -> None:
    space = Room(10_000, lambda tokens: tokens, kept=5000)

    def fits(running: list[Request], more: Request) -> bool:
        return space.fits([space.need(request) for request in running], space.need(more))

    assert fits([], asked(20_000, 5))
    assert fits([asked(4000, 1000)], asked(4000, 1000))
    assert not fits([asked(4000, 1000)], asked(4001, 1000))
    assert fits([asked(10, 10**9)], asked(1000, 10**9))
    assert not fits([asked(10, 10**9)], asked(10_000 - 10 - 2 * EXPECTED + 1, 10**9))


def test_an_answer_needs_room_up_to_its_next_step() -> None:
    space = Room(0, lambda tokens: 2 * tokens, step=100)
    needs = [space.need(asked(7, 250), emitted) for emitted in (0, 99, 100, 199, 200, 249)]
    assert needs == [2 * (7 + answer) for answer in (100, 100, 200, 200, 250, 250)]


def test_growing_answers_take_what_is_kept_first_and_then_the_place_of_the_youngest() -> None:
    space = Room(1000, lambda tokens: tokens, kept=300)
    told = {
        (): (0, 300),
        (400, 400): (2, 300),
        (700, 400): (2, 200),
        (700, 600): (2, 0),
        (700, 601): (1, 300),
        (700, 200, 401, 10): (2, 300),
        (1400, 10): (1, 0),
    }
    for needs, (seats, kept) in told.items():
        assert space.seats(needs) == seats
        assert space.keeps(needs[:seats]) == kept


@given(st.lists(st.integers(1, 900), max_size=9), st.integers(0, 400))
def test_nobody_passes_an_older_one_and_nothing_that_would_fit_waits(needs: list[int], kept: int) -> None:
    space = Room(1000, lambda tokens: tokens, kept=kept)
    seats = space.seats(needs)
    assert bool(needs) == bool(seats)
    assert sum(needs[:seats]) + space.keeps(needs[:seats]) <= space.size + space.kept
    assert seats == len(needs) or sum(needs[: seats + 1]) > space.size + space.kept


def test_what_is_kept_leaves_room_for_a_conversation(caplog: pytest.LogCaptureFixture) -> None:
    pair = ScriptPair(says("x"), left=1 << 30, bytes_a_token=1 << 17)
    assert kept_bytes(pair, Settings()) == 1 << 28
    assert kept_bytes(pair, Settings(prefix_cache_gib=0.125)) == 1 << 27
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert kept_bytes(pair, Settings(prefix_cache_gib=4)) == (1 << 30) - (4096 << 17)
    assert "--prefix-cache-gib 4 is more than there is: 0.5" in caplog.text
    assert room(pair, Settings(prefix_cache_gib=0)).size == 1 << 30


def test_a_conversation_longer_than_memory_holds_is_refused_by_its_length() -> None:
    with stand(ScriptPair(says("x"), left=100_000, bytes_a_token=1000), prefix_cache_gib=0) as served:
        assert served.engine.model.context_length == 100
        refused = served.post(messages=[{"role": "user", "content": "x" * 200}])
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "100" in refused.json()["error"]["message"]


def test_a_longer_context_than_the_checkpoint_has_is_not_narrowed_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    assert served(ScriptPair(says("x")), Settings(context_length=4097)).context_length == 4096
    assert "a context of 4097 tokens was asked for; the checkpoint has 4096" in caplog.text
    caplog.clear()
    assert served(ScriptPair(says("x")), Settings(context_length=4096)).context_length == 4096
    assert not caplog.records


@pytest.mark.parametrize(("left", "most"), [(300, 1), (1000, 4)])
def test_requests_that_do_not_fit_together_wait_for_each_other(left: int, most: int) -> None:
    pair = ScriptPair(says("hello there", block=1), left=left, pace=0.005)
    with stand(pair, prefix_cache_gib=0, concurrency=4) as served, ThreadPoolExecutor(4) as pool:
        pair.gate.clear()
        answers = [pool.submit(served.post, max_tokens=200) for _ in range(4)]
        served.wait_until(lambda: served.engine.health.running + served.engine.health.waiting == 4)
        pair.gate.set()
        assert {answer.result().json()["choices"][0]["message"]["content"] for answer in answers} == {"hello there"}
    assert pair.most_sessions == most


def test_the_real_sums_hold_the_embedded_pair_in_full_length() -> None:
    pair = load_runtime(None, "none")
    space = room(pair, Settings())
    assert space.longest(pair.context_length, pair.session_bytes) == pair.context_length
    assert space.session_bytes(1000) > space.session_bytes(10) > 0
