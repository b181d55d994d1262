"""More clients than there is room for, while a round takes for ever: everybody hears at once what there is to hear."""

from concurrent.futures import ThreadPoolExecutor

from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, asked, half_open, stand
from tests.server.wire import refused


def wait(served: Stand, count: int) -> None:
    """Until so many are in the line."""
    served.wait_until(lambda: served.engine.health.waiting == count)


def answers(served: Stand, waiting: int) -> None:
    """Whoever looks after the server is answered. The round under way does not end meanwhile: nobody waits for it."""
    health = served.http.get("/health")
    assert (health.status_code, health.json()["running"], health.json()["waiting"]) == (200, 1, waiting)
    assert served.http.get("/v1/models").json()["data"][0]["id"] == "poolside/Laguna-Script"


def test_who_does_not_fit_is_refused_at_once_who_left_the_line_never_starts_and_health_is_told_throughout() -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with stand(pair, concurrency=1, queue=2) as served, ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.post, seed=1)
        served.wait_until(lambda: len(pair.requests) == 1)
        answers(served, 0)
        waiting = []
        for count, stream in ((1, False), (2, True)):
            waiting.append(half_open(served, seed=1 + count, stream=stream))
            wait(served, count)
            answers(served, count)
        for seed, stream in ((4, True), (5, False)):
            beyond = served.http.post("/v1/chat/completions", json=asked(seed=seed, stream=stream))
            assert (beyond.status_code, refused(beyond)["code"]) == (429, "queue_full")
            assert int(beyond.headers["retry-after"]) > 0
            answers(served, 2)
        for count, sock in zip((1, 0), waiting, strict=True):
            sock.close()
            wait(served, count)
            answers(served, count)
        assert not first.done()
        pair.gate.set()
        assert first.result().json()["choices"][0]["message"]["content"] == "ok"
        assert served.post(seed=6).status_code == 200
        assert [request.sampling.seed for request in pair.requests] == [1, 6]
