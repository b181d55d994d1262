"""One step for all sessions at once: prompt chunks beside blocks, one pass of each network, one host read."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from models.contract import Speculator, Target
from models.decode.flight import Flight, Share, flight, read_ids
from models.decode.session import InvalidRequest, Request, Session, Tapped
from models.decode.speculate import Kept, Part, Round, absorb, keep, run
from models.decode.width import Table, Wish, accept, candidates, decide, learn

logger = logging.getLogger(__name__)

LAZY_ROWS = 64
"""A context takes up rows in batches of at least this many unless a draft needs them: plain rounds stay cheap."""
CLEAR_EVERY = 256
"""Rounds between returns of MLX's unused buffers to the system, as mlx-lm's loop does."""


@dataclass(frozen=True)
class Update:
    """What one step brought one session. An `error` ends it; it has no other end then."""

    session: Session
    ids: tuple[int, ...] = ()
    finish: Literal["stop", "length"] | None = None
    error: Exception | None = None


class Batch:
    """All running sessions of one target. Not thread safe: one thread owns it and everything it makes.

    Every step reads the device once. While it waits, the next round is already enqueued when nothing of it hangs on the
    answer (plain rounds and prompt chunks: anchors are passed on unread); a row run for nothing is taken back.
    """

    def __init__(
        self,
        target: Target,
        speculator: Speculator | None,
        *,
        prefill_chunk: int = 512,
        prefill_chunk_beside: int | None = None,
        speculation_off: str = "no speculator is loaded",
        read: Callable[[mx.array], list[int]] = read_ids,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """An empty batch.

        Args:
            target: what decides the text.
            speculator: what drafts, if anything does.
            prefill_chunk: prompt rows a round while nobody decodes.
            prefill_chunk_beside: the same while somebody does; a quarter of it unless said.
            speculation_off: why there is no speculator, for the sessions' stats.
            read: how the host reads what a round drew.
            clock: seconds, for costs and stats.

        Raises:
            InvalidRequest: a chunk without rows.
        """
        beside = max(1, prefill_chunk // 4) if prefill_chunk_beside is None else prefill_chunk_beside
        if min(prefill_chunk, beside) < 1:
            raise InvalidRequest("prefill_chunk", min(prefill_chunk, beside), "at least 1")
        self._target, self._speculator, self._speculation_off = target, speculator, speculation_off
        self._chunk, self._chunk_beside = prefill_chunk, beside
        self._read, self._clock = read, clock
        block = 1 if speculator is None else speculator.block_size
        # A session that ends may have a whole block enqueued behind its last round.
        self._slack, self._block = 2 * block, block
        self._sessions: list[Session] = []
        self._flight: Flight | None = None
        self._landed, self._rounds = 0.0, 0
        self._table, self._plain_before = Table(candidates(block)), False

    @property
    def sessions(self) -> Sequence[Session]:
        """Sessions that are not over, oldest first."""
        return tuple(self._sessions)

    def add(self, request: Request) -> Session:
        """Take a request in; nothing runs before the next step.

        Raises:
            InvalidRequest: a prompt id is not in the target's vocabulary.
        """
        wrong = next((token for token in request.prompt if not 0 <= token < self._target.vocab_size), None)
        if wrong is not None:
            raise InvalidRequest("prompt", wrong, f"ids from 0 to {self._target.vocab_size - 1}")
        session = Session(
            request, acceptance=self._table.acceptance.handed_on(), speculation_off=self._why_never(request)
        )
        self._sessions.append(session)
        return session

    def cancel(self, session: Session) -> None:
        """End a session now; its caches are let go at once, and a row that is under way for it is not looked at."""
        if session.finish is None:
            session.close("cancelled")
        self._sessions = [other for other in self._sessions if other is not session]
        if not self._sessions:
            self._flight = None

    def step(self) -> list[Update]:
        """Run one round for every session and report what each got.

        A round that raises is blamed on nobody yet: its sessions start over from their tokens, each in passes of its
        own, until they are past that point; one that raises alone ends with the error.
        """
        updates: list[Update] = []
        if any(len(session.emitted) < session.alone_until for session in self._sessions):
            for session in self.sessions:
                self._guarded([session], updates)
        elif self._sessions:
            self._guarded(self.sessions, updates)
        return updates

    def _guarded(self, sessions: Sequence[Session], updates: list[Update]) -> None:
        try:
            self._advance(sessions, updates)
        except Exception as error:
            # The boundary between requests: whatever one of them raises must not end the others.
            logger.exception("a round of %d sessions raised", len(sessions))
            self._flight = None
            if len(sessions) == 1:
                sessions[0].close("error")
                updates.append(Update(sessions[0], error=error))
            self._sessions = [session for session in self._sessions if session.finish is None]
            for session in self._sessions if len(sessions) > 1 else ():
                session.failures += 1
                session.alone_until = len(session.emitted) + 2**session.failures - 1
                session.open((), ())

    def _advance(self, sessions: Sequence[Session], updates: list[Update]) -> None:
        """Land the flight under way, after the next one was enqueued if that one drafts nothing, else before."""
        landing, self._flight = self._flight, None
        if landing is None or not landing.wanted:
            landing = self._launch(sessions, None, self._widths(sessions, {}), self._clock())
        together, widths, ahead = len(sessions) == len(self._sessions), dict[Session, int](), None
        if landing is not None:
            if together and not landing.drafted:
                widths = self._widths(sessions, landing.picks())
                # A block waits for its turn: what it draws would come late, and its cost would look like this round's.
                if max(widths.values(), default=1) == 1:
                    ahead = self._launch(sessions, landing, widths, 0.0)
            self._land(landing, updates, followed=ahead is not None)
        if together:
            widths = widths or self._widths(self._sessions, {})
            self._flight = ahead or self._launch(self._sessions, None, widths, self._landed)

    def _launch(
        self, sessions: Sequence[Session], before: Flight | None, widths: dict[Session, int], since: float
    ) -> Flight | None:
        """Enqueue a round; `before` is a flight without drafts whose draws are still unread."""
        drawn = {} if before is None else before.picks()
        running = [s for s in sessions if s.finish is None and self._budget(s, drawn) > 0]
        if not running:
            return None
        for session in running:
            if not session.caches:
                self._open(session)
        parts, decoding = self._parts(running, drawn, widths)
        behind = [s for s, part in parts if part.drafts and s.pending]
        caught_up = sum(session.waiting_rows for session in behind)
        self._catch_up(behind)
        mx.async_eval(_held(behind))
        tapped = any(session.speculates for session, _ in parts)
        carried = before.round.drawn if before is not None and any(p.source is not None for _, p in parts) else None
        enqueued = run(self._target, self._speculator, [part for _, part in parts], carried=carried, tapped=tapped)
        known = [session.length + (session in drawn) for session, _ in parts]
        launched = flight(enqueued, parts, known, since=since, decoding=decoding, caught_up=caught_up)
        late = [share.session for share in launched.shares if self._fed(share, launched)]
        self._catch_up(late)
        mx.async_eval(enqueued.packed, *_held(late))
        return launched

    def _parts(
        self, running: Sequence[Session], drawn: dict[Session, int], widths: dict[Session, int]
    ) -> tuple[list[tuple[Session, Part]], bool]:
        """Every session's rows for the next round, and whether all of them decode."""
        left = self._chunk_beside if any(session in widths for session in running) else self._chunk
        parts = []
        for session in running:
            count, drafts = 1, widths.get(session, 1) - 1
            if session not in widths:
                count = min(session.length + (session in drawn) - session.fed, left)
                left -= count
            if count:
                source = drawn.get(session)
                ids = () if source is not None else session.tokens(session.fed, session.fed + count)
                where = session.caches, session.context, session.request.sampling, session.fed
                parts.append((session, Part(*where, ids=ids, source=source, drafts=drafts)))
        return parts, all(session in widths for session, _ in parts)

    def _widths(self, sessions: Sequence[Session], drawn: dict[Session, int]) -> dict[Session, int]:
        """Rows of the next round for each session that decodes: one token of its timeline is left to feed."""
        decoding = [
            session
            for session in sessions
            if session.finish is None
            and self._budget(session, drawn) > 0
            and (session.emitted or session in drawn)
            and session.length + (session in drawn) - session.fed == 1
        ]
        if not any(session.speculates for session in decoding):
            return dict.fromkeys(decoding, 1)
        wishes = [
            Wish(
                session.acceptance,
                min(self._block, self._budget(session, drawn)) if session.speculates else 1,
                self._block if session.request.speculation == "always" else None,
            )
            for session in decoding
        ]
        decision, self._table = decide(self._table, wishes)
        for session in decoding:
            if session.speculates and decision.plain_because is not None:
                session.plain_because = decision.plain_because
        return dict(zip(decoding, decision.rows, strict=True))

    def _fed(self, share: Share, launched: Flight) -> bool:
        """Note that a share's rows are on their way; true when its context should take up what waits."""
        session = share.session
        session.fed += share.rows
        if not session.speculates:
            return False
        if not share.drafts:
            session.pending.append(Tapped(launched.round.taps, share.row, share.row + share.rows))
        # Beside a prompt chunk the taps are large, and the round is not one that should be kept cheap.
        return bool(session.pending) and (session.waiting_rows >= LAZY_ROWS or not launched.decoding)

    def _catch_up(self, sessions: Sequence[Session]) -> None:
        if self._speculator is not None and sessions:
            absorb(self._speculator, [(session.context, session.pending) for session in sessions])
            for session in sessions:
                session.pending = []

    def _land(self, landing: Flight, updates: list[Update], *, followed: bool) -> None:
        """Read what a flight drew and settle every session with it."""
        ids = self._read(landing.round.packed)
        now = self._clock()
        self._measure(landing, now, followed)
        for share in landing.shares:
            session = share.session
            if session.tally.started is None:
                session.tally.started = max(landing.since, self._landed)
            if session.finish is None and share.draws:
                left = session.request.max_tokens - len(session.emitted)
                drawn = share.drawn(ids, landing.drafted)
                kept = keep(share.drafted(ids), drawn, session.request.stop_ids, left)
                self._settle(share, kept, landing.round, now)
                updates.append(Update(session, kept.ids, kept.finish))
        self._landed = now
        self._sessions = [session for session in self._sessions if session.finish is None]
        self._rounds += 1
        if self._rounds % CLEAR_EVERY == 0:
            mx.clear_cache()

    def _settle(self, share: Share, kept: Kept, landed: Round, now: float) -> None:
        session = share.session
        if share.drafts or kept.finish is not None:
            session.take_back(share.anchor + kept.rows)
        session.emitted += kept.ids
        session.tally.latest = now
        if session.tally.answered is None:
            session.tally.answered = now
        else:
            session.tally.rounds += 1
        if share.drafts:
            session.tally.block(share.drafts, kept.accepted)
            session.acceptance = session.acceptance.after(share.drafts, kept.agreed)
            self._table = accept(self._table, share.drafts, kept.agreed)
            session.pending.append(Tapped(landed.taps, share.row, share.row + kept.rows))
        if kept.finish is not None:
            session.close(kept.finish)

    def _measure(self, landing: Flight, now: float, followed: bool) -> None:
        """Teach the width what a round cost.

        A plain round is a measure in the middle of a run of them, where each hides the next one's work; a block where
        its drafts did not first have to catch up with many rows.
        """
        plain = landing.decoding and not landing.drafted
        if landing.decoding and self._speculator is not None:
            steady = (
                followed and self._plain_before if plain else landing.caught_up <= len(landing.shares) * self._block
            )
            seconds = now - max(landing.since, self._landed)
            self._table = learn(self._table, landing.rows, drafting=not plain, seconds=seconds, steady=steady)
        self._plain_before = plain

    def _open(self, session: Session) -> None:
        context = self._speculator.make_context() if self._speculator is not None and session.speculates else []
        session.open(self._target.make_caches(self._slack), context)

    def _budget(self, session: Session, drawn: dict[Session, int]) -> int:
        return session.request.max_tokens - len(session.emitted) - (session in drawn)

    def _why_never(self, request: Request) -> str | None:
        if self._speculator is None:
            return self._speculation_off
        return "the request turned speculation off" if request.speculation == "off" else None


def _held(sessions: Sequence[Session]) -> list[mx.array]:
    """What the speculator's contexts hold."""
    return [array for session in sessions for cache in session.context for array in cache.arrays]
