"""Clients that leave, drip, stall and crowd, at every stage: the others hear the right text, to its end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest

from tests.faults.outcome import Outcome, ask, prompt, request_bytes
from tests.faults.proxy import CALM, Trouble, proxied, reset
from tests.faults.scene import CROWD, SLOTS, Scene, scene
from tests.faults.tally import Tally
from tests.server.stand import wait_until

STORM = 24


def test_two_hundred_clients_share_four_slots(tally: Tally) -> None:
    with scene(max_connections=CROWD + 50) as served:
        heard = asyncio.run(served.right(*(f"client {number}" for number in range(CROWD))))
        tally.outcomes("200 clients, 4 slots", heard)
        assert {outcome.end for outcome in heard} == {"answered"}
        assert served.pair.most_sessions == SLOTS


def test_a_crowd_beyond_the_line_is_refused_by_name(tally: Tally) -> None:
    with scene(queue=8) as served:
        served.pair.gate.clear()

        async def crowd() -> list[Outcome]:
            asking = asyncio.create_task(served.right(*(f"client {number}" for number in range(60))))
            await asyncio.to_thread(wait_until, lambda: _arrived(SLOTS + 8)(served))
            served.pair.gate.set()
            return await asking

        heard = asyncio.run(crowd())
        tally.outcomes("60 clients, 4 slots, a line of 8", heard)
        assert {outcome.code for outcome in heard if outcome.end == "refused"} == {"queue_full"}
        assert sum(outcome.end == "answered" for outcome in heard) >= SLOTS + 8


Way = Literal["close", "reset", "half-close"]


@dataclass(frozen=True)
class Stage:
    """How far requests have come when their clients leave."""

    crowd: int
    reached: Callable[[Scene], bool]
    unsent: int = 0
    """Bytes of each request that are not sent."""
    rounds: bool = False
    """Rounds go on meanwhile."""


def _arrived(count: int) -> Callable[[Scene], bool]:
    """So many requests were submitted; a batch whose round waits takes up no more of them."""
    return lambda served: served.engine.health.running + served.engine.health.waiting == count


STAGES = {
    "half sent": Stage(STORM, lambda _: True, unsent=30),
    "in the line": Stage(STORM, _arrived(STORM)),
    "in the first round": Stage(1, lambda served: served.pair.sessions == 1),
    "under way": Stage(SLOTS, lambda served: served.pair.sessions == SLOTS, rounds=True),
}


async def left(served: Scene, stage: Stage, data: bytes, how: Way) -> None:
    """Send requests, wait until all have come so far, and leave all at once."""
    links = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(stage.crowd)]
    for _, writer in links:
        writer.write(data[: len(data) - stage.unsent])
        await writer.drain()
    await asyncio.to_thread(wait_until, lambda: stage.reached(served), 20)
    for _, writer in links:
        if how == "reset":
            reset(writer)
        elif how == "half-close":
            writer.write_eof()
        else:
            writer.close()
    served.pair.gate.set()
    await asyncio.to_thread(wait_until, lambda: served.idle, 10)
    for _, writer in links:
        writer.close()


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", STAGES)
def test_a_storm_of_clients_that_leave_frees_every_slot(name: str, stream: bool, how: Way, tally: Tally) -> None:
    """Whoever ends its side of the connection has left: uvicorn closes the other side, too."""
    stage = STAGES[name]
    with scene() as served:
        served.pair.pace = 0.001
        if not stage.rounds:
            served.pair.gate.clear()

        async def storm() -> list[Outcome]:
            await left(served, stage, request_bytes(prompt("endless", stream=stream)), how)
            return await served.right("after", "the", "storm")

        heard = asyncio.run(storm())
        tally.case(f"clients that leave: {name}", tried=stage.crowd)
        tally.outcomes("requests after a storm", heard)
        assert {outcome.end for outcome in heard} == {"answered"}


TROUBLES: dict[str, tuple[Trouble, Trouble]] = {
    "slow both ways": (Trouble(delay=0.002, piece=16), Trouble(delay=0.002, piece=64)),
    "a request byte by byte": (Trouble(delay=0.0005, piece=1), CALM),
    "an answer in threes": (CALM, Trouble(piece=3)),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_poor_line_changes_no_text(trouble: str, tally: Tally) -> None:
    up, down = TROUBLES[trouble]

    async def through(served: Scene) -> list[Outcome]:
        async with proxied(served.port, up=up, down=down) as port:
            return await served.right(*(f"number {number}" for number in range(8)), port=port)

    with scene() as served:
        heard = asyncio.run(through(served))
        tally.outcomes(f"a poor line: {trouble}", heard)
        assert {outcome.end for outcome in heard} == {"answered"}


CUTS: dict[str, tuple[Trouble, Trouble]] = {
    f"{name} {then} after {after}": (Trouble(after=after, then=then), CALM)
    if name == "request"
    else (CALM, Trouble(after=after, then=then))
    for name in ("request", "answer")
    for then in ("cut", "reset", "half-close")
    for after in (20, 150, 200)
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_line_that_breaks_harms_nobody_else(cut: str, tally: Tally) -> None:
    up, down = CUTS[cut]

    async def broken(served: Scene) -> list[Outcome]:
        async with proxied(served.port, up=up, down=down) as port:
            # One slot is left for the others, since not every answer is long enough to break.
            data = request_bytes(prompt("endless", stream=True))
            lost = asyncio.gather(*(ask(port, data) for _ in range(SLOTS - 1)))
            beside = asyncio.create_task(served.right("one", "two", "three"))
            heard = await beside
            lost.cancel()
            await asyncio.gather(lost, return_exceptions=True)
        return [*heard, *await served.right("after")]

    with scene() as served:
        served.pair.pace = 0.001
        heard = asyncio.run(broken(served))
        tally.outcomes("a line that breaks: those beside it", heard)
        assert {outcome.end for outcome in heard} == {"answered"}


def test_clients_that_do_not_read_hold_up_nobody(tally: Tally) -> None:
    async def stalled(served: Scene) -> list[Outcome]:
        async with proxied(served.port, down=Trouble(after=300, then="stall")) as port:
            waiting = [
                asyncio.create_task(ask(port, request_bytes(prompt("endless", stream=True, max_tokens=20_000))))
                for _ in range(SLOTS - 1)
            ]
            heard = await served.right(*(f"beside {number}" for number in range(6)))
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return heard

    with scene() as served:
        heard = asyncio.run(stalled(served))
        tally.outcomes("clients that do not read: those beside them", heard)
        assert {outcome.end for outcome in heard} == {"answered"}
