import asyncio
import threading
from collections.abc import Sequence
from typing import Literal

import pytest

from models.decode.session import Request, Sampling, Stats
from server.errors import EngineDead
from server.mail import Mail, Progress
from server.outbox import EACH, LONGEST, SHORTEST, News, Outbox
from server.ticket import Ticket
from tests.server.skipping import Loop, run

Told = list[tuple[float, list[int]]]


class Scene:
    """An outbox on a loop whose time passes at once, and what it handed on and when."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.told = Told()
        self.outbox = Outbox(self._deliver)

    def _deliver(self, news: Sequence[News]) -> None:
        ids = [token for _, item in news if isinstance(item, Progress) for token in item.ids]
        self.told.append((round(self.loop.time(), 4), ids))

    def at(self, when: float, *news: News) -> None:
        self.loop.call_at(when, self.outbox.post, news)


def ticket() -> Ticket:
    return Ticket(Request((1, 2), Sampling(), 9, frozenset()), Mail())


def came(*ids: int, rounds: int = 1, finish: Literal["stop", "length"] | None = None) -> Progress:
    return Progress(ids, finish, Stats(2, len(ids), rounds, 0, 0, 0.0, 0.0, 0, None))


def test_the_first_news_and_the_last_go_out_at_once_and_what_comes_between_so_often() -> None:
    async def scene() -> tuple[Told, int]:
        stage, one = Scene(), ticket()
        for token in range(12):
            stage.at(SHORTEST * token / 4, (one, came(token, rounds=token)))
        stage.at(SHORTEST * 12.2 / 4, (one, came(12, rounds=12, finish="stop")))
        await asyncio.sleep(1)
        assert isinstance(stage.loop, Loop)
        return stage.told, stage.loop.woken

    told, woken = run(scene)
    assert told[:1] == [(0.0, [0])]
    assert [token for _, ids in told for token in ids] == list(range(13))
    assert [when for when, _ in told] == [0.0, SHORTEST, 2 * SHORTEST, 3 * SHORTEST, round(SHORTEST * 12.2 / 4, 4)]
    # The loop looked of its own accord in between.
    assert woken == 2


def test_rounds_that_are_further_apart_go_out_one_by_one() -> None:
    async def scene() -> Told:
        stage, one = Scene(), ticket()
        for token in range(4):
            stage.at(2.5 * SHORTEST * token, (one, came(token, rounds=token)))
        await asyncio.sleep(1)
        return stage.told

    assert run(scene) == [(round(2.5 * SHORTEST * token, 4), [token]) for token in range(4)]


@pytest.mark.parametrize(("tickets", "seconds"), [(1, SHORTEST), (4, SHORTEST), (8, 8 * EACH), (32, LONGEST)])
def test_more_tickets_hear_less_often_each_up_to_a_bound(tickets: int, seconds: float) -> None:
    async def scene() -> Told:
        stage, all_ = Scene(), [ticket() for _ in range(tickets)]
        for step in range(30):
            stage.at(0.004 * step, *((one, came(step, rounds=step)) for one in all_))
        await asyncio.sleep(1)
        return stage.told

    told = run(scene)
    times = [when for when, _ in told]
    assert times[:3] == [0.0, seconds, round(2 * seconds, 4)]
    assert [ids.count(step) for step in range(30) for _, ids in told if step in ids] == [tickets] * 30


def test_an_urgent_one_takes_along_what_the_others_have() -> None:
    async def scene() -> Told:
        stage, one, other = Scene(), ticket(), ticket()
        stage.at(0.0, (one, came(0, rounds=0)))
        stage.at(0.002, (one, came(1)))
        stage.at(0.004, (other, came(5, rounds=0)), (one, came(2, rounds=2)))
        stage.at(0.006, (one, came(3, rounds=3)))
        stage.at(0.007, (other, EngineDead("RuntimeError")))
        await asyncio.sleep(1)
        return stage.told

    assert run(scene) == [(0.0, [0]), (0.004, [1, 5, 2]), (0.007, [3])]


def test_nothing_is_lost_or_left_between_two_real_threads() -> None:
    async def scene() -> list[int]:
        heard, over, one = list[int](), asyncio.Event(), ticket()

        def deliver(news: Sequence[News]) -> None:
            for _, item in news:
                assert isinstance(item, Progress)
                heard.extend(item.ids)
            if heard[-1] == last:
                over.set()

        outbox, last = Outbox(deliver), 20_000

        def rounds() -> None:
            for token in range(last + 1):
                # None of them is urgent: each must be found by a look that was due anyway, or ask for one.
                outbox.post([(one, came(token))])
                if token % 5_000 == 0:
                    threading.Event().wait(3 * SHORTEST)

        thread = threading.Thread(target=rounds)
        thread.start()
        await asyncio.wait_for(over.wait(), 30)
        thread.join()
        return heard

    assert asyncio.run(scene()) == list(range(20_001))
