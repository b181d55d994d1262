"""One step for all sessions at once: prompt chunks beside blocks, one pass of each network, one host read."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from models.contract import Speculator, Target
from models.decode.acceptance import TARGET, Source, Writer
from models.decode.flight import Flight, Share, read_ids
from models.decode.launch import Launcher
from models.decode.logprobs import Scored
from models.decode.pace import Pace, Plan
from models.decode.prefix import PrefixStore
from models.decode.processors import past_of
from models.decode.scoring import Scoring
from models.decode.session import InvalidRequest, Request, Session, Tapped
from models.decode.speculate import Kept, Round, keep
from models.decode.width import Table

logger = logging.getLogger(__name__)

CLEAR_EVERY = 256
"""Rounds between returns of MLX's unused buffers to the system, as mlx-lm's loop does."""


@dataclass(frozen=True)
class Update:
    """What one step brought one session. An `error` ends it; it has no other end then."""

    session: Session
    ids: tuple[int, ...] = ()
    finish: Literal["stop", "length"] | None = None
    error: Exception | None = None
    scores: tuple[Scored, ...] = ()
    """One for each of the ids, where the request asked for log probabilities."""
    prompt: tuple[Scored, ...] | None = None
    """With the first ids, one for each prompt token after the first, where the request asked for those."""
    source: Source | None = None
    """Who drafted, if anybody did."""
    accepted: int = 0
    """So many of the ids, the first ones, had been drafted; the rest are the target's own."""

    @property
    def writers(self) -> tuple[Writer, ...]:
        """Who wrote each of the ids first."""
        drafted = () if self.source is None else (self.source,) * self.accepted
        return drafted + (TARGET,) * (len(self.ids) - len(drafted))


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
        prefix: PrefixStore | None = None,
        learned: Table | None = None,
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
            prefix: what earlier requests left, and where these leave what they can; it outlives the batch.
            learned: what the width may start from; without it, it measures first.
            prefill_chunk: prompt rows a round while nobody decodes.
            prefill_chunk_beside: the most while somebody does, as much unless said; measured rounds say how many.
            speculation_off: why there is no speculator, for the sessions' stats.
            read: how the host reads what a round drew.
            clock: seconds, for costs and stats.

        Raises:
            InvalidRequest: a chunk without rows.
        """
        chunks = prefill_chunk, prefill_chunk if prefill_chunk_beside is None else prefill_chunk_beside
        self._launcher = Launcher(target, speculator, prefix)
        self._pace = Pace(1 if speculator is None else speculator.block_size, *chunks, learned)
        self._target, self._speculator, self._speculation_off = target, speculator, speculation_off
        self._read, self._clock = read, clock
        self._sessions: list[Session] = []
        self._scoring: dict[Session, Scoring] = {}
        self._scored: dict[Session, tuple[Scored, ...]] = {}
        self._flight: Flight | None = None
        self._passed: list[tuple[Session, tuple[int, ...]]] = []
        self._landed, self._rounds, self._disturbed = 0.0, 0, False

    @property
    def learned(self) -> Table:
        """What the width has learned by now: plain numbers, which another batch over this pair may start from."""
        return self._pace.learned

    @property
    def sessions(self) -> Sequence[Session]:
        """Sessions that are neither over nor parked, in the order in which they were taken up."""
        return (*self._sessions, *self._scoring)

    def add(self, request: Request) -> Session:
        """Take a request in; nothing runs before the next step.

        Raises:
            InvalidRequest: an id in the prompt, the prediction or of a bias is not in the target's vocabulary.
        """
        size = self._target.vocab_size
        biased = [token for token, _ in request.sampling.logit_bias]
        for name, tokens in (("prompt", request.prompt), ("prediction", request.prediction), ("logit_bias", biased)):
            wrong = next((token for token in tokens if not 0 <= token < size), None)
            if wrong is not None:
                raise InvalidRequest(name, wrong, f"ids from 0 to {size - 1}")
        session = Session(
            request,
            record=self._pace.record(),
            speculation_off=self._why_never(request),
            past=past_of(request, size),
        )
        self.resume(session)
        return session

    def cancel(self, session: Session) -> None:
        """End a session now. What it has read is kept, its caches are let go, and rows under way are not looked at."""
        if session.finish is None:
            self._launcher.keep(session)
            session.close("cancelled")
        self._scored.pop(session, None)
        self._leave(session)

    def park(self, session: Session) -> None:
        """Let the caches of a running session go until it is resumed; its text will be the same, and so will its usage.

        What it has read is kept where there is room for that. Rows under way are not looked at, and run again later.
        """
        self._launcher.keep(session, unread=1)
        session.park()
        self._flight = None if self._flight is None else self._flight.without(session)
        self._disturbed = True
        self._leave(session)

    def resume(self, session: Session) -> None:
        """Let a session run from the next step on: it reads what is known of its text, and goes on."""
        request = session.request
        if request.prompt_logprobs is None or session.emitted or session in self._scored:
            self._sessions.append(session)
        else:
            self._scoring[session] = Scoring(self._target, request.prompt, request.prompt_logprobs)

    def _leave(self, session: Session) -> None:
        self._scoring.pop(session, None)
        self._sessions = [other for other in self._sessions if other is not session]
        if not self._sessions:
            self._flight = None

    def step(self) -> list[Update]:
        """Run one round for every session and report what each got.

        A round that raises is blamed on nobody yet: its sessions start over from their tokens, each in passes of its
        own, until they are past that point; one that raises alone ends with the error.
        """
        updates: list[Update] = []
        passed, self._passed = self._passed, []
        for session, marks in passed:
            # The last step came by these, and its ids did not wait for them.
            self._launcher.pass_by(session, marks)
        # What lands in this step also waited for that, or for a parking, so its time says nothing of its cost.
        self._disturbed |= bool(self._scoring)
        self._score(updates)
        if any(len(session.emitted) < session.alone_until for session in self._sessions):
            for session in tuple(self._sessions):
                self._guarded([session], updates)
        elif self._sessions:
            self._guarded(tuple(self._sessions), updates)
        self._disturbed = False
        return updates

    def _score(self, updates: list[Update]) -> None:
        """A chunk of the first prompt that is to be scored; one that is through joins the others."""
        session = next(iter(self._scoring), None)
        if session is None:
            return
        scoring = self._scoring[session]
        try:
            over = scoring.advance()
        except Exception as error:
            # The boundary between requests, as below.
            logger.exception("a prompt of %d tokens could not be scored", session.length)
            del self._scoring[session]
            session.close("error")
            updates.append(Update(session, error=error))
            return
        if over:
            del self._scoring[session]
            self._scored[session] = tuple(scoring.scores)
            self._sessions.append(session)

    def _guarded(self, sessions: Sequence[Session], updates: list[Update]) -> None:
        try:
            self._advance(sessions, updates)
        except Exception as error:
            # The boundary between requests: whatever one of them raises must not end the others.
            logger.exception("a round of %d sessions raised", len(sessions))
            self._flight = None
            if len(sessions) == 1:
                sessions[0].close("error")
                self._scored.pop(sessions[0], None)
                updates.append(Update(sessions[0], error=error))
            self._sessions = [session for session in self._sessions if session.finish is None]
            for session in self._sessions if len(sessions) > 1 else ():
                session.failures += 1
                session.alone_until = len(session.emitted) + 2**session.failures - 1
                session.open((), ())

    def _advance(self, sessions: Sequence[Session], updates: list[Update]) -> None:
        """Land the flight under way, after the next one was enqueued if neither drafts anything, else before."""
        landing, self._flight = self._flight, None
        if landing is None or not landing.wanted:
            landing = self._launch(sessions, None, self._pace.plan(sessions), self._clock())
        together, ahead = len(sessions) == len(self._sessions), None
        if landing is not None:
            if together and landing.kind == "plain":
                stopping = landing.stopping
                going = [session for session in sessions if session not in stopping]
                plan = self._pace.plan(going, landing.picks())
                # A block waits for its turn: what it draws would come late, and its cost would look like this round's.
                if plan.plain and (plan.blocks or not landing.picks()):
                    ahead = self._launch(going, landing, plan, 0.0)
            self._land(landing, updates, followed=ahead is not None)
        if together and ahead is None and not self._passed:
            plan = self._pace.plan(self._sessions)
            # Enqueuing may wait for the device: nobody's latest ids stay here behind a whole chunk of a prompt.
            if plan.blocks or not updates:
                ahead = self._launch(self._sessions, None, plan, self._landed)
        # What was enqueued for sessions that are over by now would be held until the next one comes.
        self._flight = ahead if self._sessions else None

    def _launch(self, sessions: Sequence[Session], before: Flight | None, plan: Plan, since: float) -> Flight | None:
        """Enqueue a round of a plan that is followed from here."""
        waiting = len(sessions) - len(plan.blocks)
        rows = self._pace.prompt_rows(plan, waiting, told=not self._scoring) if waiting else 0
        return self._launcher.launch(sessions, before, self._pace.follow(plan), prompt_rows=rows, since=since)

    def _land(self, landing: Flight, updates: list[Update], *, followed: bool) -> None:
        """Read what a flight drew and settle every session with it."""
        ids = self._read(landing.round.packed)
        now = self._clock()
        if not self._disturbed:
            self._pace.measured(landing, now - max(landing.since, self._landed), followed=followed)
        for share in landing.shares:
            session = share.session
            if session.tally.started is None:
                session.tally.started = max(landing.since, self._landed)
            if share.marks:
                self._passed.append((session, share.marks))
            if session.finish is None and share.draws:
                left = session.budget(unread=False)
                drawn = share.drawn(ids, landing.round.drawn_from)
                kept = keep(share.drafted(ids), drawn, session.request.stop_ids, left)
                self._settle(share, kept, landing.round, now)
                other = share.otherwise(ids, landing.drafted, landing.round.drawn_from)
                self._pace.compared(session, share.block, kept.agreed, list(zip(other, drawn, strict=False)))
                scores = share.scores(ids, landing.round.scored_from)[: len(kept.ids)]
                updates.append(_update(share, kept, scores, self._scored.pop(session, None)))
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
        if session.constraint is not None:
            session.constraint.keep(kept.ids)
        session.guesses.emitted(kept.ids)
        session.tally.latest = now
        if session.tally.answered is None:
            session.tally.answered = now
        else:
            session.tally.rounds += 1
        if share.block.subject is not None:
            session.tally.block(share.block.subject.source, share.drafts, kept.accepted)
            self._pace.judged(session, share.block.subject, share.drafts, kept.agreed)
            if session.speculates:
                session.pending.append(Tapped(landed.taps, share.row, share.row + kept.rows))
        if kept.finish is not None:
            self._launcher.keep(session)
            session.close(kept.finish)

    def _why_never(self, request: Request) -> str | None:
        if self._speculator is None:
            return self._speculation_off
        return "the request turned speculation off" if request.speculation == "off" else None


def _update(share: Share, kept: Kept, scores: Sequence[Scored], prompt: tuple[Scored, ...] | None) -> Update:
    subject = share.block.subject
    return Update(
        share.session,
        kept.ids,
        kept.finish,
        scores=tuple(scores),
        prompt=prompt,
        source=None if subject is None else subject.source,
        accepted=kept.accepted,
    )
