"""What each session's next block is: what is known of the sessions and of the clock, put to the width's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from models.decode.acceptance import Record, Subject
from models.decode.blocks import Choice, Offer, Wish
from models.decode.costs import bucket
from models.decode.coupling import Coupling, Heat
from models.decode.drafts import Drafts, Proposal
from models.decode.flight import Flight
from models.decode.reading import FIRST, Others
from models.decode.session import InvalidRequest, Session
from models.decode.width import Table, accept, candidates, decide, learn
from models.slack import GIVEN_ROWS

FRESH = 2
"""Blocks of a phase in one answer before its drafts are known from itself."""


@dataclass(frozen=True)
class Plan:
    """Blocks for the sessions that decode, and the table if they are run."""

    blocks: Mapping[Session, Drafts]
    table: Table
    plain_because: str | None = None
    spared: tuple[tuple[Session, Subject], ...] = ()
    """Who could have drafted for sessions that decode plainly."""

    @property
    def plain(self) -> bool:
        """Nobody drafts."""
        return not any(block.count for block in self.blocks.values())


class Pace:
    """What a batch has learned of its machine, and the blocks it plans from that."""

    def __init__(self, block: int, chunk: int, beside: int, learned: Table | None = None) -> None:
        """`block` is the most rows that the speculator may draft for, 1 without one; `learned` is the start.

        `chunk` are the prompt rows of a round while nobody decodes, `beside` the most while somebody does.

        Raises:
            InvalidRequest: a chunk without rows.
        """
        if min(chunk, beside) < 1:
            raise InvalidRequest("prefill_chunk", min(chunk, beside), "at least 1")
        self._block, self._plain_before = block, False
        self._chunk, self._beside = chunk, beside
        self._coupling = Coupling()
        widths = tuple(sorted({*candidates(block), *candidates(max(block, GIVEN_ROWS))}))
        self._table = Table(widths) if learned is None else replace(learned, widths=widths)

    @property
    def learned(self) -> Table:
        """What is known by now."""
        return self._table

    def record(self) -> Record:
        """Where a new session starts."""
        return self._table.record.handed_on()

    def plan(self, sessions: Sequence[Session], drawn: Mapping[Session, int] = MappingProxyType({})) -> Plan:
        """The next round's block of each session that decodes: one token of its timeline is left to feed.

        `drawn` are the sessions whose next id is drawn but unread; what is given to them is a guess until it is.
        """
        decoding = [session for session in sessions if _decodes(session, session in drawn)]
        for session in sessions:
            if session.request.speculation != "off":
                session.guesses.read(session.tokens, session.length)
        wishes = [Wish(self._offers(session, session in drawn), self._fixed(session)) for session in decoding]
        context = sum(session.length for session in decoding)
        decision, table = decide(self._table, wishes, bucket(context))
        blocks = dict(zip(decoding, map(self._block_of, decoding, decision.choices), strict=True))
        spared = [
            (session, offer.subject)
            for session, wish in zip(decoding, wishes, strict=True)
            for offer in wish.offers
            if not blocks[session].count
        ]
        return Plan(blocks, table, decision.plain_because, tuple(spared))

    def follow(self, plan: Plan) -> Mapping[Session, Drafts]:
        """The blocks of a plan that is run now."""
        self._table = plan.table
        for session, subject in plan.spared:
            session.record = session.record.idle(subject)
        for session in plan.blocks:
            if session.speculates and plan.plain_because is not None:
                session.plain_because = plan.plain_because
        return plan.blocks

    def prompt_rows(self, plan: Plan, waiting: int, *, told: bool) -> int:
        """How many rows of `waiting` prompts may be read beside a plan's blocks; `told`: what that takes is measured.

        Where it will not, nothing can be waited for: as many are read as would be tried first.
        """
        if not plan.blocks:
            return self._chunk
        others = Others.of(len(plan.blocks), drafting=not plan.plain)
        rows = self._table.reading.rows(others, self._beside, waiting / len(plan.blocks))
        return rows if told else max(rows, min(FIRST, self._beside))

    def judged(self, session: Session, subject: Subject, drafted: int, agreed: int) -> None:
        """Learn from a block of which the target agreed to the first `agreed` drafts."""
        session.record = session.record.after(subject, drafted, agreed)
        session.judged[subject] += 1
        self._table = accept(self._table, subject, drafted, agreed)

    def compared(self, session: Session, block: Drafts, agreed: int, others: Sequence[tuple[int, int]]) -> None:
        """Learn whether drafts should share the noise; `others`: what else could be drafted, and the target's ids."""
        if block.subject is not None and others:
            # Beyond the first draft that was refused, the target answered to another text.
            other = sum(draft == drawn for draft, drawn in others[: agreed + 1])
            heat = Heat.of(block.subject.phase, session.request.sampling.temperature)
            pair = (other, agreed) if block.likeliest else (agreed, other)
            self._coupling = self._coupling.after(heat, *pair)

    def measured(self, landed: Flight, seconds: float, *, followed: bool) -> None:
        """Learn what a round cost; `followed` says that the next one was already enqueued when it was read.

        A plain round is a measure in the middle of a run of them, where each hides the next one's work; a block where
        its drafts did not first have to catch up with many rows.
        """
        plain = landed.kind == "plain"
        if landed.decoding:
            others = Others.of(landed.decoding, drafting=not plain)
            reading = self._table.reading.after(others, landed.prompt_rows, seconds)
            self._table = replace(self._table, reading=reading)
        if not landed.prompt_rows:
            steady = followed and self._plain_before if plain else landed.caught_up <= len(landed.shares) * self._block
            context = sum(share.anchor + 1 for share in landed.shares)
            self._table = learn(
                self._table, landed.kind, landed.rows, seconds=seconds, steady=steady, place=bucket(context)
            )
        self._plain_before = plain

    def _offers(self, session: Session, unread: bool) -> tuple[Offer, ...]:
        """Who could draft for a session now."""
        budget, offers = session.budget(unread), list[Offer]()
        if budget < 2 or session.request.speculation == "off":
            return ()
        if session.speculates:
            subject = Subject("speculator", session.guesses.phase)
            fresh = session.judged[subject] < FRESH
            offers.append(Offer(subject, session.record.of(subject), min(self._block, budget), fresh=fresh))
        for proposal in _proposals(session, min(GIVEN_ROWS, budget) - 1 + unread):
            ids, subject = proposal.ids[unread:], proposal.subject
            copied_always = subject.source == "copy" and session.speculates and self._fixed(session) is not None
            if ids and not copied_always:
                offers.append(Offer(subject, session.record.of(subject), len(ids) + 1, ids))
        return tuple(offers)

    def _block_of(self, session: Session, choice: Choice) -> Drafts:
        if choice.offer is None:
            return Drafts()
        drafts, subject = choice.rows - 1, choice.offer.subject
        likeliest = self._coupling.likeliest(Heat.of(subject.phase, session.request.sampling.temperature))
        return Drafts(subject, drafts, choice.offer.ids[:drafts], likeliest)

    def _fixed(self, session: Session) -> int | None:
        return max(self._block, GIVEN_ROWS) if session.request.speculation == "always" else None


def _proposals(session: Session, count: int) -> list[Proposal]:
    """Up to `count` next ids by each source that needs no network."""
    found = session.guesses.proposals(session.length, count)
    forced = session.constraint.forced()[:count] if session.constraint is not None else ()
    return [*found, Proposal(Subject("grammar", session.guesses.phase), forced)] if forced else found


def _decodes(session: Session, unread: bool) -> bool:
    return (
        session.finish is None
        and session.budget(unread) > 0
        and bool(session.emitted or unread)
        and session.length + unread - session.fed == 1
    )
