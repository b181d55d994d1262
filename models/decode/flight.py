"""A round that was enqueued and not yet read: whose rows are in it, and where their ids will lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from models.decode.costs import Kind
from models.decode.drafts import Drafts
from models.decode.logprobs import Scored, read_scores, score_width
from models.decode.session import Session
from models.decode.speculate import Part, Round


@dataclass(frozen=True)
class Share:
    """One session's rows in a flight. It holds no cache, so a session that is cancelled lets go of its own."""

    session: Session
    draws: bool
    """The rows end where the known text ends, so what they draw is new text."""
    anchor: int
    """Timeline position of the last row that is no draft."""
    row: int
    """Flat place of its first row, and how many rows it has."""
    rows: int
    block: Drafts
    draft: int
    """Place of its first draft among all that the speculator drew, and of its first drawn id among all drawn."""
    pick: int
    score: int
    """Place of its first score among all scores, and how many alternatives each has (None: it has no scores)."""
    top: int | None
    marks: tuple[int, ...]
    """Its rows reach these: what its caches hold there is kept before more than a token is enqueued for it."""

    @property
    def drafts(self) -> int:
        """How many of its rows are drafts."""
        return self.block.count

    def drafted(self, ids: Sequence[int]) -> Sequence[int]:
        """Its drafts, in a packed read if they are there."""
        return self.block.ids or ids[self.draft : self.draft + self.drafts]

    def otherwise(self, ids: Sequence[int], drafted: int, drawn_from: int) -> Sequence[int]:
        """What its drafts had been with or without the noise, in a packed read that has them after the `drafted`."""
        if self.block.ids or drawn_from == drafted or self.session.request.sampling.temperature == 0:
            return ()
        return ids[drafted + self.draft : drafted + self.draft + self.drafts]

    def drawn(self, ids: Sequence[int], drawn_from: int) -> Sequence[int]:
        """What the target drew for it, in a packed read that has the first id so drawn at `drawn_from`."""
        start = drawn_from + self.pick
        return ids[start : start + self.drafts + 1]

    def scores(self, ids: Sequence[int], scored_from: int) -> list[Scored]:
        """The scores of what the target drew for it, in a packed read that has the first score at `scored_from`."""
        if self.top is None:
            return []
        start = scored_from + self.score
        return read_scores(ids[start : start + (self.drafts + 1) * score_width(self.top)], self.top)


@dataclass(frozen=True)
class Flight:
    """One enqueued round and its shares."""

    round: Round
    shares: tuple[Share, ...]
    rows: int
    drafted: int
    """Drafts that the speculator drew."""
    since: float
    """It cannot have begun earlier than this (clock seconds)."""
    decoding: int
    """Sessions in it that decode."""
    prompt_rows: int
    """Rows of prompt chunks."""
    caught_up: int
    """Rows that the speculator's contexts had to take up before it could draft."""

    @property
    def kind(self) -> Kind:
        """What it costs like."""
        if self.drafted:
            return "drafted"
        return "given" if any(share.drafts for share in self.shares) else "plain"

    @property
    def wanted(self) -> bool:
        """Whether a session still waits for it."""
        return any(share.session.finish is None for share in self.shares)

    @property
    def stopping(self) -> frozenset[Session]:
        """Sessions to be kept as this leaves them, in the midst of their prompts.

        Who comes by a mark near its end goes on by a token, which its caches can give back.
        """
        return frozenset(share.session for share in self.shares if share.marks and not share.draws)

    def without(self, session: Session) -> "Flight":
        """The same round, in which nobody looks at the rows of one session."""
        return replace(self, shares=tuple(share for share in self.shares if share.session is not session))

    def picks(self) -> dict[Session, int]:
        """Where the next id of each session that draws lies in what this flight draws (without drafts: one each)."""
        return {share.session: share.pick for share in self.shares if share.draws}


def flight(
    enqueued: Round,
    parts: Sequence[tuple[Session, Part, Drafts]],
    known: Sequence[int],
    *,
    since: float,
    decoding: int,
    prompt_rows: int,
    caught_up: int,
) -> Flight:
    """Say who is in an enqueued round. `known` are the lengths of the sessions' timelines, unread anchors included."""
    shares, row, draft, pick, score = [], 0, 0, 0, 0
    for (session, part, block), length in zip(parts, known, strict=True):
        stop = part.position + part.known
        places = row, part.rows, block, draft, pick, score
        marked = tuple(mark for mark in session.marks if part.position < mark <= stop)
        shares.append(Share(session, stop == length, stop - 1, *places, part.top_logprobs, marked))
        row, draft, pick = row + part.rows, draft + block.drawn, pick + block.count + 1
        score += 0 if part.top_logprobs is None else (part.drafts + 1) * score_width(part.top_logprobs)
    return Flight(enqueued, tuple(shares), row, draft, since, decoding, prompt_rows, caught_up)


def read_ids(packed: mx.array) -> list[int]:
    """The one host read of a round, which waits for the device. `packed` is int32 [n]."""
    return np.asarray(packed).tolist()
