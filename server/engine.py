"""The one thread that loads, runs and frees every array, and the line in front of it."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

import mlx.core as mx

from models.decode.session import Request
from models.progress import Progress
from server.admission import room
from server.arrival import Arrival, TurnedBack
from server.backend import Pair
from server.errors import EngineDead, EngineHung, ModelLoading, QueueFull, Refusal, ServerStopping
from server.keeping import kept
from server.mail import Mail
from server.outbox import News, Outbox
from server.pulse import LOST, Condition, Pulse, judged
from server.rounds import Rounds
from server.served import Model, served
from server.settings import Settings
from server.ticket import Line, Ticket

log = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds that a download gets to notice that the server stops, and a dead thread to end."""
FLUSH = 1.2
"""Seconds that the disk gets, as the server stops, to write what waits."""
LOOK = 1.0
"""Seconds between two looks at a thread that may hang."""

State = Literal["loading", "ready", "hung", "dead", "stopped"]


@dataclass(frozen=True)
class Health:
    """How the engine is, at one moment."""

    state: State
    reason: str | None
    running: int
    waiting: int
    step_age: float | None
    """Seconds since the last round ended; None before the first."""
    step_seconds: float | None
    """How long the round under way has taken so far; None when there is none."""
    loading: Progress | None
    """How far the model is; None before its first step and once it is there."""
    kept: int
    """Bytes of the caches of earlier prompts, after the last round."""
    parked: int
    """Running requests that wait, without caches, until there is memory for them."""


class Engine:
    """Loads a pair on its own thread and decodes what is submitted. Every method belongs to one event loop."""

    def __init__(
        self,
        load: Callable[[], Pair],
        settings: Settings,
        *,
        on_death: Callable[[], None] | None = None,
        on_ready: Callable[[Model], None] | None = None,
        arrival: Arrival | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._arrival = Arrival() if arrival is None else arrival
        self._settings = settings
        self._on_death = on_death
        self._on_ready = on_ready
        self._line = Line()
        self._live: set[Ticket] = set()
        self._followers: dict[Ticket, list[Ticket]] = {}
        self._state: State = "loading"
        self._reason: str | None = None
        self._model: Model | None = None
        self._pulse = Pulse(clock)
        self._watch: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name="engine")
        self._outbox: Outbox | None = None

    async def start(self) -> None:
        """Begin to load, on the engine's own thread; returns at once."""
        self._outbox = Outbox(self._deliver)
        self._watch = asyncio.create_task(self._watched())
        self._thread.start()

    async def drain(self, grace: float) -> None:
        """Take nothing new, and give what runs `grace` seconds to end; then fail the rest, by name."""
        if self._state != "dead":
            self._state = "stopped"
        self._arrival.turn_back()
        end = time.monotonic() + grace
        while self._live and time.monotonic() < end:
            await asyncio.sleep(0.02)
        self._fail_all(ServerStopping)

    async def stop(self) -> None:
        """Fail what is left and wait until the thread has freed its arrays and ended; not for long if it may never."""
        if self._watch is not None:
            self._watch.cancel()
        await self.drain(0)
        self._line.close()
        doubtful = self._arrival.fetching or self._state == "dead"
        await asyncio.to_thread(self._thread.join, GRACE if doubtful else None)

    @property
    def left_behind(self) -> bool:
        """Whether the thread still hangs or waits for the hub after `stop`: only the process's end will end it."""
        return self._thread.is_alive()

    @property
    def was_ready(self) -> bool:
        """Whether its model was loaded at any time."""
        return self._model is not None

    @property
    def model(self) -> Model:
        """The loaded model.

        Raises:
            ModelLoading, EngineHung, EngineDead, ServerStopping: there is none to answer with.
        """
        match self.state:
            case "loading":
                raise ModelLoading
            case "dead":
                raise EngineDead(self._reason or "unknown")
            case "hung":
                raise EngineHung(seconds=self._settings.round_timeout)
            case "stopped":
                raise ServerStopping
            case "ready":
                assert self._model is not None
                return self._model

    @property
    def state(self) -> State:
        """What can be expected of it now."""
        return "hung" if self._state == "ready" and self._condition != "well" else self._state

    @property
    def _condition(self) -> Condition:
        return judged(self._pulse.since(self._pulse.passing), self._settings.round_timeout)

    @property
    def health(self) -> Health:
        """For whoever watches over the server."""
        state, pulse = self.state, self._pulse
        waiting = len(self._line) + sum(map(len, self._followers.values()))
        return Health(
            state=state,
            reason=hanging(self._settings.round_timeout) if state == "hung" else self._reason,
            running=max(0, len(self._live) - waiting),
            waiting=waiting,
            step_age=pulse.since(pulse.ended),
            step_seconds=pulse.since(pulse.began),
            loading=self._arrival.latest if state == "loading" else None,
            kept=pulse.kept,
            parked=pulse.parked,
        )

    def welcome(self, requests: int = 1) -> Model:
        """The loaded model, if so many more requests could be queued now.

        Raises:
            QueueFull: too many wait already.
            ModelLoading, EngineHung, EngineDead, ServerStopping: it could never be answered.
        """
        model = self.model
        if len(self._live) + requests > self._settings.concurrency + self._settings.queue:
            raise QueueFull(waiting=self._settings.queue)
        return model

    def submit(self, *turns: Sequence[Request]) -> tuple[Mail, list[Ticket]]:
        """Queue the requests of one turn or several, all or none, and say where their news will come.

        Those of a turn have one prompt: the first reads it, and the others follow when it has been read.

        Raises:
            QueueFull, ModelLoading, EngineHung, EngineDead, ServerStopping: as `welcome` does.
        """
        requests = [request for turn in turns for request in turn]
        self.welcome(len(requests))
        mail = Mail()
        tickets = [Ticket(request, mail, place) for place, request in enumerate(requests)]
        self._live.update(tickets)
        waiting = iter(tickets)
        for first, *others in (list(islice(waiting, len(turn))) for turn in turns):
            if others:
                self._followers[first] = others
            self._line.join(first)
        return mail, tickets

    def release(self, ticket: Ticket) -> None:
        """Its answer is not wanted any more, or is over: the slot is free before the next round."""
        ticket.cancelled = True
        self._live.discard(ticket)
        self._line.leave(ticket)
        self._let_follow(ticket)

    def _let_follow(self, first: Ticket) -> None:
        for ticket in self._followers.pop(first, ()):
            if not ticket.cancelled:
                self._line.join(ticket)

    def _main(self) -> None:
        """The thread. Nothing of it outlives it: arrays are dropped here, then MLX's streams."""
        try:
            self._serve()
        except TurnedBack:
            log.info("the model is not wanted any more: loading stopped")
        except Exception as error:
            # A checkpoint that cannot be used is refused by a named ValueError that says it all, and what the system
            # refuses names its file; the rest are faults.
            named = self._state == "loading" and isinstance(error, ValueError | OSError)
            what = "the model cannot be loaded" if named else "the engine thread died"
            log.error("%s: %s", what, error, exc_info=not named)
            self._out.call(self._die, type(error).__name__)
        finally:
            gc.unfreeze()
            gc.collect()
            mx.clear_streams()

    def _serve(self) -> None:
        pair = self._load()
        before = kept(pair, self._settings)
        self._pulse.passing = self._pulse.clock()
        self._out.call(self._ready, served(pair, self._settings, before.replay))
        places, chunk, prefix = self._settings.concurrency, self._settings.prefill_chunk, before.prefix
        try:
            where = self._line, self._pulse, self._out.post
            space = room(pair, self._settings)
            Rounds(pair, *where, places=places, chunk=chunk, room=space, prefix=prefix).run()
        finally:
            if prefix is not None:
                prefix.close(FLUSH)

    @property
    def _out(self) -> Outbox:
        assert self._outbox is not None
        return self._outbox

    def _deliver(self, news: Sequence[News]) -> None:
        for ticket, item in news:
            ticket.deliver(item)
            self._let_follow(ticket)
            # It has left the batch, even if its client takes long to read what is here, or never does.
            if isinstance(item, Refusal) or item.finish is not None:
                self.release(ticket)

    def _ready(self, model: Model) -> None:
        if self._state == "loading":
            self._model = model
            self._state = "ready"
            drafting = self._settings.speculation if model.speculation_off is None else model.speculation_off
            log.info("%s is ready; context %d tokens; speculation: %s", model.id, model.context_length, drafting)
            if self._on_ready is not None:
                self._on_ready(model)

    async def _watched(self) -> None:
        """Look at the thread now and then; one that is lost is dead."""
        before: State = self.state
        while self._state in ("loading", "ready"):
            await asyncio.sleep(LOOK)
            now = self.state
            self._seen(before, now)
            if now == "hung" and self._condition == "lost":
                self._die(hanging(LOST * self._settings.round_timeout))
            before = now

    def _seen(self, before: State, now: State) -> None:
        """Whoever waits for a thread that begins to hang hears of it."""
        if now == "hung" and before != "hung":
            log.error("the engine hangs: %s", hanging(self._settings.round_timeout))
            self._fail_all(partial(EngineHung, seconds=self._settings.round_timeout))
        elif now == "ready" and before == "hung":
            log.warning("the engine goes on")

    def _die(self, reason: str) -> None:
        if self._state == "dead":
            return
        self._state, self._reason = "dead", reason
        self._fail_all(partial(EngineDead, reason))
        if self._on_death is not None:
            self._on_death()

    def _fail_all(self, refusal: Callable[[], Refusal]) -> None:
        if self._outbox is not None:
            self._outbox.look()
        for ticket in list(self._live):
            ticket.deliver(refusal())
            self.release(ticket)


def hanging(seconds: float) -> str:
    """Why a thread counts as hung."""
    return f"no round has ended for {seconds:g} seconds"
