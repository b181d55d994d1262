"""What can be done next with all sessions alike: who could draft for each, and the blocks that come of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from models.decode.acceptance import Acceptance, Subject
from models.decode.costs import Kind


@dataclass(frozen=True)
class Offer:
    """What one source could draft for one session now."""

    subject: Subject
    acceptance: Acceptance
    most: int
    """Rows of its widest block, the anchor's included."""
    ids: tuple[int, ...] = ()
    """The drafts where they are known; else the speculator has to run."""
    fresh: bool = False
    """Its drafts were hardly tried in this answer, so that what is known of them is known from others."""

    @property
    def drawn(self) -> bool:
        """The speculator has to run for it."""
        return not self.ids


@dataclass(frozen=True)
class Wish:
    """What one session may do next: who could draft for it (nobody: plain), and its width if that is not free."""

    offers: tuple[Offer, ...] = ()
    fixed: int | None = None


class Choice(NamedTuple):
    """One session's next block."""

    rows: int = 1
    offer: Offer | None = None
    """Who drafts; None in a plain round."""

    @classmethod
    def of(cls, offer: Offer, rows: int) -> "Choice":
        """The widest block of at most so many rows."""
        return cls(min(rows, offer.most), offer)

    @property
    def expected(self) -> float:
        """Tokens that it is expected to commit."""
        return 1.0 if self.offer is None else self.offer.acceptance.expected(self.rows)


PLAIN = Choice()


class Arm(NamedTuple):
    """Something to do with all sessions alike."""

    kind: Kind
    rows: int


PLAINLY = Arm("plain", 1)


class Blocks(NamedTuple):
    """Blocks for all sessions, and what they come to."""

    choices: tuple[Choice, ...]
    rows: int
    kind: Kind

    @classmethod
    def of(cls, choices: tuple[Choice, ...]) -> "Blocks":
        """The same, with what it costs like."""
        return cls(choices, sum([choice.rows for choice in choices]), kind_of(choices))

    @property
    def expected(self) -> float:
        """Tokens that they are expected to commit."""
        return sum([choice.expected for choice in self.choices])


def blocks_of(widths: tuple[int, ...], wishes: Sequence[Wish]) -> dict[Arm, Blocks]:
    """What can be done with all sessions alike; sessions whose width is fixed keep it in all of them."""
    plainly = tuple(PLAIN if wish.fixed is None else _widest(wish) for wish in wishes)
    plans = {PLAINLY: Blocks.of(plainly)}
    free = [offer for wish in wishes if wish.fixed is None for offer in wish.offers]
    kinds: list[Kind] = ["drafted"] if any(offer.drawn for offer in free) else []
    kinds += ["given"] if any(not offer.drawn for offer in free) else []
    for kind in kinds:
        top = max(offer.most for offer in free if offer.drawn == (kind == "drafted"))
        for rows in dict.fromkeys(min(width, top) for width in widths[1:]):
            plan = Blocks.of(
                tuple(
                    _best(wish.offers, rows, kind) if wish.fixed is None else own
                    for wish, own in zip(wishes, plainly, strict=True)
                )
            )
            # Where known drafts promise more for everybody, the speculator has no round of its own.
            if kind == "given" or plan.kind == "drafted":
                plans[Arm(kind, rows)] = plan
    return plans


def kind_of(choices: Iterable[Choice]) -> Kind:
    """What a round of these blocks is."""
    kind: Kind = "plain"
    for choice in choices:
        if choice.offer is not None:
            if choice.offer.drawn:
                return "drafted"
            kind = "given"
    return kind


def _best(offers: Sequence[Offer], rows: int, kind: Kind) -> Choice:
    """The most promising block of at most so many rows; for a `given` round, without the speculator."""
    best = None
    for offer in offers:
        if kind == "drafted" or offer.ids:
            choice = Choice.of(offer, rows)
            best = choice if best is None or choice.expected > best.expected else best
    return PLAIN if best is None else best


def _widest(wish: Wish) -> Choice:
    assert wish.fixed is not None
    return _best(wish.offers, wish.fixed, "drafted")
