"""Writing a round down for the device: whose rows are in it, and what the speculator's contexts take up first."""

import logging
from collections.abc import Mapping, Sequence

import mlx.core as mx

from models.contract import Speculator, Target
from models.decode.constraint import Masks
from models.decode.drafts import Drafts
from models.decode.flight import Flight, Share, flight
from models.decode.prefix import NEAR_MISS, PrefixStore
from models.decode.reading import portions
from models.decode.session import Session, Tapped
from models.decode.speculate import Part, absorb, run
from models.decode.trie import agreement
from models.slack import slack

logger = logging.getLogger(__name__)

FORESEEN = 512
"""Tokens of an answer that caches have room for from the start; a sixteenth of what is known where that is more.

To move what a cache holds so rarely costs less than a hundredth of reading it for every token.
"""

LAZY_ROWS = 64
"""A context takes up rows in batches of at least this many unless a draft needs them: plain rounds stay cheap."""


class Launcher:
    """The two networks, and what earlier timelines left."""

    def __init__(self, target: Target, speculator: Speculator | None, prefix: PrefixStore | None) -> None:
        self._target, self._speculator, self._prefix = target, speculator, prefix
        self._slack = slack(None if speculator is None else speculator.block_size)
        self._masks: Masks | None = None

    def launch(
        self,
        sessions: Sequence[Session],
        before: Flight | None,
        blocks: Mapping[Session, Drafts],
        *,
        prompt_rows: int,
        since: float,
    ) -> Flight | None:
        """Enqueue a round with these blocks and up to so many rows of prompts.

        `before` is a plain flight whose draws are unread.
        """
        drawn = {} if before is None else before.picks()
        running = self._opened([s for s in sessions if s.finish is None and s.budget(s in drawn) > 0])
        if not running:
            return None
        counts = _counts(running, drawn, blocks, prompt_rows)
        parts = _parts(running, drawn, blocks, counts)
        behind = [s for s, part, _ in parts if part.unknown and s.pending]
        caught_up = sum(session.waiting_rows for session in behind)
        self._catch_up(behind)
        mx.async_eval(_held(behind))
        tapped = any(session.speculates for session, _, _ in parts)
        own = [part for _, part, _ in parts]
        carried = before.round.drawn if before is not None and any(p.source is not None for p in own) else None
        masks = self._masks_for(own)
        enqueued = run(self._target, self._speculator, own, carried=carried, tapped=tapped, masks=masks)
        known = [session.length + (session in drawn) for session, _, _ in parts]
        read, decode = sum(counts.values()), len(parts) - len(counts)
        launched = flight(enqueued, parts, known, since=since, decoding=decode, prompt_rows=read, caught_up=caught_up)
        late = [share.session for share in launched.shares if _fed(share, launched)]
        self._catch_up(late)
        mx.async_eval(enqueued.packed, *_held(late))
        return launched

    def _masks_for(self, parts: Sequence[Part]) -> Masks | None:
        """What fills masks, where a part has a grammar; made when the first one comes."""
        if all(part.constraint is None for part in parts):
            return None
        self._masks = self._masks or Masks(self._target.vocab_size)
        return self._masks

    def _opened(self, sessions: Sequence[Session]) -> list[Session]:
        """Those that have caches, or get them now; the first waits for the disk where nobody has anything to do."""
        ready = [session for session in sessions if session.caches]
        for session in sessions:
            if not session.caches and not self._follows(session, ready) and self._begun(session, wait=False):
                ready.append(session)
        ready = ready or [session for session in sessions[:1] if self._begun(session, wait=True)]
        return [session for session in sessions if session in ready]

    def _follows(self, session: Session, others: Sequence[Session]) -> bool:
        """Whether another session is about to leave a mark that this one can resume from: both need not read it."""
        if self._prefix is None or session.failures:
            return False
        prompt, gain = session.request.prompt, 0
        for other in others:
            # What it drafts without serves nobody who drafts.
            ahead = [mark for mark in other.marks if mark < len(prompt)]
            if ahead and other.speculates >= session.speculates:
                shared = agreement(session.prompt_ids, other.prompt_ids)
                gain = max([gain, *(mark for mark in ahead if mark <= shared)])
        held = self._prefix.find(session.prompt_ids, drafting=session.speculates).offset if gain else 0
        return gain - held >= NEAR_MISS

    def _begun(self, session: Session, *, wait: bool) -> bool:
        """Open a session, unless what it could resume from is still on its way."""
        # After a failure nothing is taken on trust.
        if self._prefix is None or session.failures:
            self._open(session)
            return True
        try:
            if not self._fetched(session, self._prefix, wait=wait):
                return False
            self._open(session)
            self._resume(session, self._prefix)
        except Exception:
            # What is kept saves time; it must not cost an answer.
            logger.exception("a session of %d tokens starts from nothing", session.length)
            session.fetch, session.marks = None, ()
            self._open(session)
        return True

    def _fetched(self, session: Session, prefix: PrefixStore, *, wait: bool) -> bool:
        """Whether all that is kept of a session's prompt is in memory by now."""
        if session.fetch is None:
            drafting = self._speculator is not None and session.speculates
            session.fetch = prefix.fetch(session.tokens(0, session.length), drafting=drafting)
        if session.fetch is not None:
            if not (wait or session.fetch.arrived):
                return False
            session.fetch.take()
            session.fetch = None
        return True

    def _open(self, session: Session) -> None:
        context = self._speculator.make_context() if self._speculator is not None and session.speculates else []
        session.open(self._target.make_caches(self._slack, _room(session)), context)

    def _resume(self, session: Session, prefix: PrefixStore) -> None:
        """Stand where an earlier timeline left a mark, and say where later ones should find some."""
        found = prefix.find(session.tokens(0, session.length), drafting=bool(session.context))
        if found.mark is not None:
            prefix.restore(found.mark, session.caches, session.context)
        session.fed = found.offset
        if not session.reread:
            session.cached, session.parted_at = found.offset, found.agreed if found.parted else None
        session.marks = prefix.places(session.request.marks, found, len(session.request.prompt))

    def keep(self, session: Session, unread: int = 0) -> None:
        """Leave a mark where a session ends, for later ones to resume from, and on disk too.

        The last `unread` of its known tokens are left out: whoever resumes must have one to read.
        """
        if self._prefix is None or not session.caches:
            return
        try:
            session.settle(unread)
            # The first may lie in rows that nobody looked at; who asks the same again cannot begin where they end.
            for place in (*(mark for mark in session.marks if mark < session.fed), session.fed):
                self._mark(session, place, self._prefix)
            if session.fed > session.cached:
                self._prefix.spill(session.tokens(0, session.fed))
        except Exception:
            # What was decoded is right and stays so, even if it cannot be kept for later.
            logger.exception("a session of %d tokens could not be kept", session.length)

    def pass_by(self, session: Session, marks: Sequence[int]) -> None:
        """Leave marks where a session that still has caches came by: one token at most was enqueued for it since."""
        if self._prefix is None or not session.caches:
            return
        session.marks = tuple(mark for mark in session.marks if mark not in marks)
        try:
            for mark in marks:
                self._mark(session, mark, self._prefix)
        except Exception:
            logger.exception("a session of %d tokens could not be kept", session.length)

    def _mark(self, session: Session, place: int, prefix: PrefixStore) -> None:
        if place > session.cached:
            self._catch_up([session] if session.pending else [])
            prefix.keep(session.tokens(0, place), session.caches, session.context)

    def _catch_up(self, sessions: Sequence[Session]) -> None:
        if self._speculator is not None and sessions:
            absorb(self._speculator, [(session.context, session.pending) for session in sessions])
            for session in sessions:
                session.pending = []


def _room(session: Session) -> int:
    """Tokens that its caches are made for: what is known, and what of the answer is likely."""
    return session.length + min(session.budget(unread=False), max(FORESEEN, session.length // 16))


def _counts(
    running: Sequence[Session], drawn: Mapping[Session, int], blocks: Mapping[Session, Drafts], rows: int
) -> dict[Session, int]:
    """How many of the `rows` each session gets that still reads its prompt, where it gets any."""
    needs = {s: min(s.length + (s in drawn) - s.fed, s.to_mark) for s in running if s not in blocks}
    given = zip(needs, portions(tuple(needs.values()), rows), strict=True)
    return {session: count for session, count in given if count}


def _parts(
    running: Sequence[Session],
    drawn: Mapping[Session, int],
    blocks: Mapping[Session, Drafts],
    counts: Mapping[Session, int],
) -> list[tuple[Session, Part, Drafts]]:
    """Every session's rows for the next round: its block, or so many of its prompt."""
    parts = []
    for session in running:
        count, block = counts.get(session, int(session in blocks)), blocks.get(session, Drafts())
        if count:
            source = drawn.get(session)
            ids = () if source is not None else session.tokens(session.fed, session.fed + count)
            where = session.caches, session.context, session.request.sampling, session.fed
            draws = session.fed + count == session.length + (session in drawn)
            wants = session.past(), session.constraint if draws else None, session.request.top_logprobs
            parts.append((session, Part(*where, ids, source, block.count, *wants, block.ids, block.likeliest), block))
    return parts


def _fed(share: Share, launched: Flight) -> bool:
    """Note that a share's rows are on their way; true when its context should take up what waits."""
    session = share.session
    session.fed += share.rows
    if not session.speculates:
        return False
    if not share.drafts:
        session.pending.append(Tapped(launched.round.taps, share.row, share.row + share.rows))
    # Beside a prompt chunk the taps are large, and the round is not one that should be kept cheap.
    return bool(session.pending) and (session.waiting_rows >= LAZY_ROWS or launched.prompt_rows > 0)


def _held(sessions: Sequence[Session]) -> list[mx.array]:
    """What the speculator's contexts hold."""
    return [array for session in sessions for cache in session.context for array in cache.arrays]
