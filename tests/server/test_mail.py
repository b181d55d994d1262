import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from models.decode.acceptance import TARGET
from models.decode.logprobs import Scored
from models.decode.session import Stats
from server.errors import EngineDead
from server.mail import INTERVAL, Mail, Progress

Told = list[tuple[float, int, tuple[int, ...]]]


class Skipping(selectors.DefaultSelector):
    """Where a loop would sleep until its next timer, the time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """A loop on its selector's clock."""

    def __init__(self) -> None:
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.now


def run(scene: Callable[[], Awaitable[Told]]) -> Told:
    loop = Loop()
    try:
        return loop.run_until_complete(scene())
    finally:
        loop.close()


def came(*ids: int, finish: Literal["stop", "length"] | None = None, rounds: int = 1) -> Progress:
    return Progress(ids, finish, Stats(3, len(ids), rounds, 0, 0, 0.0, 0.0, 0, None), writers=(TARGET,) * len(ids))


async def heard(mail: Mail, until: int) -> Told:
    """What is handed on, and when, up to the news that end so many tickets."""
    now, told = asyncio.get_running_loop().time, Told()
    while until:
        place, progress = await mail.next()
        told.append((round(now(), 4), place, progress.ids))
        until -= progress.finish is not None
    return told


def test_the_first_ids_and_the_end_go_out_at_once_and_what_comes_between_at_most_so_often() -> None:
    async def scene() -> Told:
        mail, loop = Mail(), asyncio.get_running_loop()
        for token in range(12):
            loop.call_at(0.25 * INTERVAL * token, mail.put, 0, came(token))
        loop.call_at(0.25 * INTERVAL * 12, mail.put, 0, came(12, finish="stop"))
        return await heard(mail, 1)

    assert run(scene) == [
        (0.0, 0, (0,)),
        (INTERVAL, 0, (1, 2, 3, 4)),
        (2 * INTERVAL, 0, (5, 6, 7, 8)),
        (3 * INTERVAL, 0, (9, 10, 11, 12)),
    ]


def test_rounds_that_are_further_apart_go_out_one_by_one() -> None:
    async def scene() -> Told:
        mail, loop = Mail(), asyncio.get_running_loop()
        for token in range(4):
            loop.call_at(2 * INTERVAL * token, mail.put, 0, came(token, finish="length" if token == 3 else None))
        return await heard(mail, 1)

    assert run(scene) == [(round(2 * INTERVAL * token, 4), 0, (token,)) for token in range(4)]


def test_an_end_does_not_wait_and_takes_along_what_the_others_have() -> None:
    async def scene() -> Told:
        mail, loop = Mail(), asyncio.get_running_loop()
        mail.put(0, came(1))
        mail.put(1, came(2))
        loop.call_at(0.2 * INTERVAL, mail.put, 1, came(3))
        loop.call_at(0.3 * INTERVAL, mail.put, 0, came(4, finish="stop"))
        loop.call_at(0.4 * INTERVAL, mail.put, 1, came(5))
        loop.call_at(0.5 * INTERVAL, mail.put, 1, came(6, finish="stop"))
        return await heard(mail, 2)

    assert run(scene) == [
        (0.0, 0, (1,)),
        (0.0, 1, (2,)),
        (round(0.3 * INTERVAL, 4), 1, (3,)),
        (round(0.3 * INTERVAL, 4), 0, (4,)),
        (round(0.5 * INTERVAL, 4), 1, (5, 6)),
    ]


def test_a_refusal_does_not_wait_and_comes_after_what_came_before_it() -> None:
    async def scene() -> Told:
        mail = Mail()
        mail.put(0, came(1))
        told = [(0.0, *(await mail.next())[:1], (1,))]
        mail.put(0, came(2))
        mail.put(0, EngineDead("RuntimeError"))
        place, progress = await mail.next()
        told.append((asyncio.get_running_loop().time(), place, progress.ids))
        for _ in range(2):
            with pytest.raises(EngineDead):
                await mail.next()
        return told

    assert run(scene) == [(0.0, 0, (1,)), (0.0, 0, (2,))]


def test_several_rounds_are_told_like_one_that_brought_it_all() -> None:
    odds = [Scored(-1.0 - place, ()) for place in range(4)]
    first = Progress((1,), None, came(1).stats, (odds[0],), (odds[1],), ("copy",))
    then = Progress((2, 3), "stop", came(2, 3, rounds=2).stats, (odds[2], odds[3]), writers=("copy", TARGET))
    assert first.and_then(then) == Progress(
        (1, 2, 3), "stop", then.stats, (odds[0], odds[2], odds[3]), (odds[1],), ("copy", "copy", TARGET)
    )
