"""Storms of clients that leave, and traffic of every kind, over HTTP: memory stays where it was."""

import asyncio
import gc
import os
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx
import pytest

from models.decode.session import Request
from models.runtime import load_runtime
from server.backend import Pair
from server.engine import Engine
from server.settings import Settings
from tests.faults.proxy import reset
from tests.faults.scene import echo, kept
from tests.faults.tally import Tally
from tests.faults.traffic import KINDS, Account, request
from tests.server.script import ScriptPair
from tests.server.stand import running, wait_until

CLIENTS, STORM = 6, 24
FLAT = 1.02
BOOKS = 1.1
"""Most that a byte of what is kept of earlier prompts takes."""


@dataclass(frozen=True)
class Held:
    """What a server without requests holds."""

    arrays: int
    """Bytes."""
    earlier: int
    """Of those, what is kept of earlier prompts."""
    objects: int
    """Of Python's."""
    files: int

    def within(self, before: "Held") -> bool:
        """Whether it is as much as before, but for what is kept on purpose."""
        own, then = self.arrays - BOOKS * self.earlier, before.arrays - before.earlier
        return own <= FLAT * then and self.objects <= FLAT * before.objects and self.files <= before.files


@contextmanager
def exact_buffers() -> Generator[None]:
    """No buffer waits for its next use."""
    mx.clear_cache()
    limit = mx.set_cache_limit(0)
    yield
    mx.set_cache_limit(limit)


def held(engine: Engine) -> Held:
    """Once nobody waits any more."""
    wait_until(lambda: engine.health.running == engine.health.waiting == 0)
    wait_until(lambda: not kept())
    return Held(mx.get_active_memory(), engine.health.kept, len(gc.get_objects()), len(os.listdir("/dev/fd")))


async def mixed(port: int, seed: int, count: int) -> Account:
    """So many requests of several clients."""
    account, dice = Account(), [random.Random(100 * seed + number) for number in range(CLIENTS)]

    async def client(own: random.Random) -> None:
        for _ in range(count // CLIENTS):
            await request(port, own, account)

    await asyncio.gather(*map(client, dice))
    return account


async def storm(port: int, dice: random.Random) -> None:
    """Requests of every kind, whole or in part, whose clients all leave without a word."""
    links = [await asyncio.open_connection("127.0.0.1", port) for _ in range(STORM)]
    for _, writer in links:
        data = dice.choice(list(KINDS.values()))(dice)
        writer.write(data[: dice.choice((len(data), len(data) // 2))])
        await writer.drain()
    await asyncio.sleep(dice.random() / 4)
    for _, writer in links:
        dice.choice((reset, lambda leaving: leaving.close(), lambda leaving: leaving.write_eof()))(writer)
    for _, writer in links:
        writer.close()


class Forgotten(list[Request]):
    """What a script was asked, of which it keeps nothing."""

    def append(self, asked: Request) -> None:
        pass


def scripted() -> Pair:
    return ScriptPair(echo, context_length=10**6, requests=Forgotten())


def embedded() -> Pair:
    return load_runtime(None, "auto")


@pytest.mark.parametrize(
    ("load", "requests", "storms"),
    [
        (scripted, 500, 12),
        pytest.param(embedded, 36, 3, marks=pytest.mark.timeout(600)),
        pytest.param(embedded, 504, 12, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_storms_and_mixed_requests_leave_memory_where_it_was(
    load: Callable[[], Pair], requests: int, storms: int, tally: Tally
) -> None:
    dice = random.Random(8)
    settings = Settings(prefix_cache_gib=0.004, responses_kept=4)
    with exact_buffers(), running(load, settings) as (port, engine):
        wait_until(lambda: engine.state == "ready")
        asyncio.run(storm(port, dice))
        asyncio.run(mixed(port, 1, requests // 2))
        before = held(engine)
        for number in range(storms):
            asyncio.run(storm(port, dice))
            assert asyncio.run(mixed(port, number + 2, requests // storms)).faults == []
        wait_until(lambda: held(engine).within(before))
    tally.case("memory: storms and mixed requests", tried=requests + storms * STORM)
