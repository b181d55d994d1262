import asyncio
from typing import Literal

import pytest

from models.decode.acceptance import TARGET
from models.decode.logprobs import Scored
from models.decode.session import Stats
from server.errors import EngineDead
from server.mail import Mail, Progress


def came(*ids: int, finish: Literal["stop", "length"] | None = None, rounds: int = 1) -> Progress:
    return Progress(ids, finish, Stats(3, len(ids), rounds, 0, 0, 0.0, 0.0, 0, None), writers=(TARGET,) * len(ids))


def test_what_comes_while_the_reader_is_busy_is_told_together_ticket_by_ticket() -> None:
    async def scene() -> None:
        mail = Mail()
        mail.put(0, came(1))
        assert await mail.next() == (0, came(1))
        mail.put(1, came(2))
        mail.put(0, came(3))
        mail.put(1, came(4, finish="stop", rounds=2))
        place, news = await mail.next()
        assert (place, news.ids, news.finish, news.stats.rounds) == (1, (2, 4), "stop", 2)
        assert await mail.next() == (0, came(3))

    asyncio.run(scene())


def test_whoever_has_mail_lets_others_run_between_two_deliveries() -> None:
    async def scene() -> list[str]:
        mail, order = Mail(), list[str]()

        async def other() -> None:
            for _ in range(3):
                order.append("other")
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for token in range(3):
            mail.put(0, came(token))
            await mail.next()
            order.append("reader")
        await task
        return order

    assert asyncio.run(scene()) == ["other", "reader"] * 3


def test_a_refusal_comes_after_what_came_before_it_and_stays() -> None:
    async def scene() -> list[tuple[int, ...]]:
        mail = Mail()
        mail.put(0, came(1))
        told = [(await mail.next())[1].ids]
        mail.put(0, came(2))
        mail.put(0, EngineDead("RuntimeError"))
        told.append((await mail.next())[1].ids)
        for _ in range(2):
            with pytest.raises(EngineDead):
                await mail.next()
        return told

    assert asyncio.run(scene()) == [(1,), (2,)]


def test_several_rounds_are_told_like_one_that_brought_it_all() -> None:
    odds = [Scored(-1.0 - place, ()) for place in range(4)]
    first = Progress((1,), None, came(1).stats, (odds[0],), (odds[1],), ("copy",))
    then = Progress((2, 3), "stop", came(2, 3, rounds=2).stats, (odds[2], odds[3]), writers=("copy", TARGET))
    assert first.and_then(then) == Progress(
        (1, 2, 3), "stop", then.stats, (odds[0], odds[2], odds[3]), (odds[1],), ("copy", "copy", TARGET)
    )
