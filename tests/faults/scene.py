"""A server with a few slots around a script that answers each message in its own way, and keeps nothing of it."""

import asyncio
import gc
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from models.decode.session import Session
from server.engine import Engine
from server.generation import Generation
from server.settings import Settings
from server.ticket import Ticket
from tests.faults.outcome import Outcome, ask, prompt, request_bytes
from tests.server.script import Round, ScriptPair, ids_of
from tests.server.stand import running, wait_until

SLOTS = 4
CROWD = 200


def echoed(text: str) -> str:
    """What the script answers to a message: each its own, in characters of one to four bytes."""
    return f"{text}: aä€🦎 " * 3


def echo(rendered: str) -> Iterable[Round]:
    """Answers in rounds of three bytes, which no character heeds; `endless` never ends."""
    asked = rendered.rpartition("<user>")[2].partition("\n")[0]
    ids = ids_of(echoed(asked))
    while True:
        yield from (ids[start : start + 3] for start in range(0, len(ids), 3))
        if "endless" not in asked:
            return


@dataclass(frozen=True)
class Scene:
    """A server with a few slots."""

    pair: ScriptPair
    engine: Engine
    port: int

    @property
    def idle(self) -> bool:
        """Nobody holds a place, in the batch or in the line."""
        health = self.engine.health
        return self.pair.sessions == health.running == health.waiting == 0

    async def right(self, *texts: str, port: int | None = None, **more: object) -> list[Outcome]:
        """Ask all at once, streamed and not by turns, and check what each heard."""
        bodies = [prompt(text, stream=place % 2 == 0, **more) for place, text in enumerate(texts)]
        heard = await asyncio.gather(*(ask(port or self.port, request_bytes(body)) for body in bodies))
        for text, outcome in zip(texts, heard, strict=True):
            assert outcome.end != "answered" or outcome.text == echoed(text)
        return heard


@contextmanager
def scene(**settings: object) -> Generator[Scene]:
    """A server around the echo, which must be empty at the end and keep nothing of its requests."""
    pair = ScriptPair(echo, context_length=10**6)
    chosen = Settings.model_validate({"concurrency": SLOTS, "queue": CROWD} | settings)
    files = len(os.listdir("/dev/fd"))
    # What is there already is not looked through again and again.
    gc.freeze()
    with running(lambda: pair, chosen) as (port, engine):
        wait_until(lambda: engine.health.state == "ready")
        there = Scene(pair, engine, port)
        try:
            yield there
            wait_until(lambda: there.idle)
        finally:
            pair.gate.set()
        pair.requests.clear()
        wait_until(lambda: not kept())
    gc.unfreeze()
    assert len(os.listdir("/dev/fd")) <= files


def kept() -> list[object]:
    """What is left of requests."""
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) in (Ticket, Session, Generation)]
