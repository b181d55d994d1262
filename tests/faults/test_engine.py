"""What goes wrong around rounds: a request that cannot be taken up or dropped, and a batch that is made anew."""

from models.decode.session import Request, Session
from models.decode.width import Table
from tests.faults.hooked import Hook, HookedPair
from tests.faults.tally import Tally
from tests.server.script import says
from tests.server.stand import stand
from tests.server.wire import refused


def broken(seed: int) -> Hook:
    """Raise for one request."""

    def hook(thing: Session | Request) -> None:
        request = thing if isinstance(thing, Request) else thing.request
        if request.sampling.seed == seed:
            raise KeyError("a grammar of /secret/path")

    return hook


def test_a_request_that_cannot_be_taken_up_fails_alone_and_the_thread_lives(tally: Tally) -> None:
    with stand(HookedPair(says("ok"), adding=broken(5))) as served:
        error = refused(served.post(seed=5))
        assert (error["code"], "secret" in error["message"]) == ("generation_failed", False)
        assert served.post(seed=6).json()["choices"][0]["message"]["content"] == "ok"
        assert served.engine.health.state == "ready"
    tally.case("the engine: a request that cannot be taken up")


def test_a_session_that_cannot_be_dropped_costs_a_fresh_batch_and_not_the_thread(tally: Tally) -> None:
    pair = HookedPair(says("a long answer " * 40), dropping=broken(5), pace=0.005)
    with stand(pair) as served:
        with served.http.stream("POST", "/v1/chat/completions", json=asked_with(5)) as response:
            next(response.iter_text())
        served.wait_until(lambda: len(pair.started) == 2)
        assert served.post(seed=6).status_code == 200
        assert served.engine.health.state == "ready"
    tally.case("the engine: a session that cannot be dropped")


def asked_with(seed: int) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "hi"}], "seed": seed, "stream": True}


def test_a_fresh_batch_goes_on_from_what_the_one_before_had_learned(tally: Tally) -> None:
    pair = HookedPair(says("ok"))
    with stand(pair) as served:
        assert served.post().status_code == 200
        pair.broken_rounds = 1
        assert refused(served.post())["code"] == "generation_failed"
        assert served.post().status_code == 200
    assert pair.started == [None, Table((1,), decisions=1)]
    tally.case("the engine: a round that raises")
