"""How wide each session's next block is: what is known of the sessions and of the clock, put to the width's table."""

from collections.abc import Mapping, Sequence

from models.decode.flight import Flight
from models.decode.session import Session
from models.decode.width import Acceptance, Table, Wish, accept, candidates, decide, learn


class Pace:
    """What a batch has learned of its machine, and the widths it draws from that."""

    def __init__(self, block: int) -> None:
        """`block` is the most rows a session may have in a round; 1 without a speculator."""
        self._block = block
        self._table, self._plain_before = Table(candidates(block)), False

    def acceptance(self) -> Acceptance:
        """Where a new session starts."""
        return self._table.acceptance.handed_on()

    def widths(self, sessions: Sequence[Session], drawn: Mapping[Session, int]) -> dict[Session, int]:
        """Rows of the next round for each session that decodes: one token of its timeline is left to feed.

        `drawn` are the sessions whose next id is drawn but unread.
        """
        decoding = [
            session
            for session in sessions
            if session.finish is None
            and session.budget(session in drawn) > 0
            and (session.emitted or session in drawn)
            and session.length + (session in drawn) - session.fed == 1
        ]
        if not any(session.speculates for session in decoding):
            return dict.fromkeys(decoding, 1)
        wishes = [
            Wish(
                session.acceptance,
                min(self._block, session.budget(session in drawn)) if session.speculates else 1,
                self._block if session.request.speculation == "always" else None,
            )
            for session in decoding
        ]
        decision, self._table = decide(self._table, wishes)
        for session in decoding:
            if session.speculates and decision.plain_because is not None:
                session.plain_because = decision.plain_because
        return dict(zip(decoding, decision.rows, strict=True))

    def judged(self, session: Session, drafted: int, agreed: int) -> None:
        """Learn from a block of which the target agreed to the first `agreed` drafts."""
        session.acceptance = session.acceptance.after(drafted, agreed)
        self._table = accept(self._table, drafted, agreed)

    def measured(self, landed: Flight, seconds: float, *, followed: bool) -> None:
        """Learn what a round cost; `followed` says that the next one was already enqueued when it was read.

        A plain round is a measure in the middle of a run of them, where each hides the next one's work; a block where
        its drafts did not first have to catch up with many rows.
        """
        plain = landed.decoding and not landed.drafted
        if landed.decoding and self._block > 1:
            steady = followed and self._plain_before if plain else landed.caught_up <= len(landed.shares) * self._block
            self._table = learn(self._table, landed.rows, drafting=not plain, seconds=seconds, steady=steady)
        self._plain_before = plain
