"""The thread's side of the engine: who is in the batch, one round after another, and who hears of it."""

import logging
from collections.abc import Callable, Sequence

from models.decode.batch import Update
from models.decode.prefix import PrefixStore
from models.decode.session import InvalidRequest, Session
from server.admission import Room
from server.backend import Batch, Pair
from server.errors import GenerationFailed, Refusal
from server.mail import Progress
from server.outbox import News
from server.pulse import Pulse
from server.ticket import Line, Ticket

log = logging.getLogger(__name__)

PATIENCE = 3
"""So many rounds may fail one after another, each with a fresh batch, before the thread gives up."""


class Rounds:
    """The batch and the tickets in it. Made, used and dropped on the engine's thread."""

    def __init__(
        self,
        pair: Pair,
        line: Line,
        pulse: Pulse,
        post: Callable[[Sequence[News]], None],
        *,
        places: int,
        chunk: int,
        room: Room,
        prefix: PrefixStore | None = None,
    ) -> None:
        self._pair = pair
        self._line = line
        self._pulse = pulse
        self._post = post
        self._places = places
        self._chunk = chunk
        self._room = room
        self._prefix = prefix
        self._batch: Batch = pair.batch(prefill_chunk=chunk, prefix=prefix)
        self._running: list[tuple[Ticket, Session]] = []
        """Oldest first, those that are parked at the end."""
        self._parked: frozenset[Session] = frozenset()
        self._settled: list[int] = []
        """Needs for which there is room as it is."""
        self._failed_rounds = 0

    def run(self) -> None:
        """Rounds until the line is closed.

        Raises:
            Exception: what the batch raised, when several fresh ones did in a row.
        """
        while not self._line.closed:
            self._pulse.passing = self._pulse.clock()
            self._let_go()
            self._make_room()
            self._admit()
            if self._running:
                self._round()
            else:
                self._rest()

    def _rest(self) -> None:
        """Nobody waits for an answer: look after what is kept, then sleep."""
        if self._prefix is not None and not len(self._line):
            self._prefix.tidy()
        self._pulse.passing = None
        self._line.wait()

    def _let_go(self) -> None:
        """Drop the sessions of cancelled tickets: what a vanished client held is free before the next round."""
        # The flag is read once: it may be raised at any moment.
        marked = [(ticket.cancelled, ticket, session) for ticket, session in self._running]
        self._running = [(ticket, session) for cancelled, ticket, session in marked if not cancelled]
        try:
            for session in (session for cancelled, _, session in marked if cancelled):
                self._batch.cancel(session)
        except Exception as error:
            # What the batch still holds of it is not known.
            log.error("a session that nobody waits for could not be dropped", exc_info=error)
            self._start_over(error)

    def _make_room(self) -> None:
        """Answers grow: what is kept gives way to them, then the youngest wait without caches until they fit again."""
        needs = self._needs()
        if needs == self._settled and not self._parked:
            return
        seats = self._room.seats(needs)
        sessions = [session for _, session in self._running]
        waiting = frozenset(sessions[seats:])
        try:
            # The oldest is parked last and resumed first: what it has read stays in the store the longest.
            for session in (each for each in reversed(sessions) if each in waiting - self._parked):
                log.info("an answer of %d tokens waits until there is memory for it", len(session.emitted))
                self._batch.park(session)
            if self._prefix is not None:
                self._prefix.limit(self._room.keeps(needs[:seats]))
            for session in (each for each in sessions if each in self._parked - waiting):
                self._batch.resume(session)
        except Exception as error:
            log.error("memory could not be handed from one session to another", exc_info=error)
            self._start_over(error)
        else:
            self._parked, self._settled = waiting, needs
        self._pulse.parked = len(self._parked)

    def _needs(self) -> list[int]:
        return [self._room.need(ticket.request, len(session.emitted)) for ticket, session in self._running]

    def _admit(self) -> None:
        while len(self._running) < self._places:
            ticket = self._line.take(self._fits)
            if ticket is None:
                return
            if not ticket.cancelled:
                self._take_up(ticket)

    def _fits(self, ticket: Ticket) -> bool:
        # What a parked one needs is counted too, so that nobody new runs before it.
        return ticket.cancelled or self._room.fits(self._needs(), self._room.need(ticket.request))

    def _take_up(self, ticket: Ticket) -> None:
        try:
            self._running.append((ticket, self._batch.add(ticket.request)))
        except InvalidRequest as error:
            log.error("a request cannot be decoded: %s", error)
            self._post([(ticket, _failure(error))])
        except Exception as error:
            # Its grammar, say, may be at fault; the others know nothing of it.
            log.error("a request could not be taken up", exc_info=error)
            self._post([(ticket, _failure(error))])

    def _round(self) -> None:
        self._pulse.began = self._pulse.clock()
        # The batch reports one session's failure in its update; what it raises concerns all of them.
        try:
            updates = self._batch.step()
        except Exception as error:
            self._failed_rounds += 1
            if self._failed_rounds >= PATIENCE:
                raise
            self._start_over(error)
            return
        self._failed_rounds = 0
        self._beat()
        owners = {id(session): ticket for ticket, session in self._running}
        over = {id(update.session) for update in updates if update.finish or update.error}
        self._running = [(ticket, session) for ticket, session in self._running if id(session) not in over]
        self._post([(owners[id(update.session)], _news(update)) for update in updates])

    def _beat(self) -> None:
        self._pulse.began, self._pulse.ended = None, self._pulse.clock()
        self._pulse.kept = 0 if self._prefix is None else self._prefix.nbytes

    def _start_over(self, error: Exception) -> None:
        """A batch that raised is in an unknown state: its requests fail, and the next ones get a fresh batch."""
        self._beat()
        log.error("a round failed for all %d running requests", len(self._running), exc_info=error)
        failed = [(ticket, _failure(error)) for ticket, _ in self._running]
        self._running, self._parked = [], frozenset()
        learned = self._batch.learned
        self._batch = self._pair.batch(prefill_chunk=self._chunk, prefix=self._prefix, learned=learned)
        self._post(failed)


def _news(update: Update) -> Progress | Refusal:
    if update.error is not None:
        log.error("a request failed", exc_info=update.error)
        return _failure(update.error)
    stats, scores = update.session.stats, update.scores
    return Progress(update.ids, update.finish, stats, scores, update.prompt, update.writers)


def _failure(error: Exception) -> GenerationFailed:
    """The name of the error alone: its traceback holds arrays, and its text may hold paths."""
    return GenerationFailed(type(error).__name__)
