"""Drafts that need no network: the client's prediction of the answer, and what the text so far went on with before."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.decode.acceptance import Phase, Source, Subject

RUN = 3
"""Ids that must agree before what followed them elsewhere is proposed (prompt lookup, Saxena 2023)."""
PATIENCE = 2
"""Ids before a prediction's first that do not make it look elsewhere."""
TRUSTED = 8
"""A source that foretold so many ids in a row is judged apart."""
READ_AT_ONCE = 512
"""Ids taken into the index of copies in one round: a long prompt that was resumed must not hold up the others."""
ID_BITS = 32


@dataclass(frozen=True)
class Proposal:
    """Ids that may come next, from one source."""

    subject: Subject
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Drafts:
    """What one session has verified in a round besides known text: nothing in a plain one."""

    subject: Subject | None = None
    """Who drafts."""
    count: int = 0
    ids: tuple[int, ...] = ()
    """The drafts where they are known beforehand; empty where the speculator is to draw them."""
    likeliest: bool = False
    """The speculator draws its likeliest ids, whatever the noise."""

    @property
    def drawn(self) -> int:
        """Those that the speculator draws."""
        return 0 if self.ids else self.count


class Runs:
    """The last `RUN` ids of a text that grows, as one number."""

    def __init__(self) -> None:
        self._latest, self._count = 0, 0

    def push(self, token: int) -> int | None:
        """Take in one id; the key of the run that ends with it, None while it is too short."""
        self._latest = (self._latest << ID_BITS | token) & ((1 << ID_BITS * RUN) - 1)
        self._count += 1
        return self._latest if self._count >= RUN else None


class Copies:
    """Follows the most recent earlier place where the text ran as it runs now; constant time for each id."""

    def __init__(self) -> None:
        self._text, self._runs = array("q"), Runs()
        self._after: dict[int, int] = {}
        self._at: int | None = None
        self.agreed = 0
        """Ids that ran like those before the place that is followed."""

    def __len__(self) -> int:
        return len(self._text)

    def extend(self, tokens: Iterable[int]) -> None:
        """Take in the next ids of the text."""
        text, push, after, at = self._text, self._runs.push, self._after, self._at
        for token in tokens:
            follows = at is not None and text[at] == token
            text.append(token)
            run = push(token)
            if at is not None and follows:
                at, self.agreed = at + 1, self.agreed + 1
            else:
                at = None if run is None else after.get(run)
                self.agreed = 0 if at is None else RUN
            if run is not None:
                after[run] = len(text)
        self._at = at

    def ahead(self, count: int) -> tuple[int, ...]:
        """The next ids if the text goes on as it did there; a repetition goes on repeating. None: nothing alike."""
        if self._at is None:
            return ()
        period = len(self._text) - self._at
        return tuple(self._text[self._at + i % period] for i in range(count))


class Prediction:
    """Follows the client's own text: from its start, and after a difference from where the latest ids are in it."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids, self._runs = tuple(ids), Runs()
        self._after: dict[int, list[int]] = {}
        own = Runs()
        for place, token in enumerate(self._ids, start=1):
            run = own.push(token)
            if run is not None:
                self._after.setdefault(run, []).append(place)
        self._came, self._count = bytearray(len(self._ids)), 0
        self._at, self._follows, self._waits = 0, False, 0
        self.agreed = 0
        """Ids that came as predicted, up to here."""

    def restart(self) -> None:
        """The answer proper begins here."""
        self._at, self._follows, self._waits, self.agreed = 0, True, PATIENCE, 0

    def push(self, token: int) -> None:
        """Take in the next emitted id."""
        run = self._runs.push(token)
        if self._follows and self._at < len(self._ids) and self._ids[self._at] == token:
            self._at, self.agreed, self._waits = self._at + 1, self.agreed + 1, 0
            self._note(1)
            return
        places = self._after.get(run, ()) if run is not None else ()
        if not places and self._waits:
            # An answer may open with a line break or two that its prediction leaves out.
            self._waits -= 1
            return
        self._follows, self.agreed = bool(places), RUN if places else 0
        if places:
            # Ahead of where it was left if the run is there, else where it is first.
            ahead = bisect_right(places, self._at)
            self._at = places[ahead] if ahead < len(places) else places[0]
            self._note(RUN)

    def ahead(self, count: int) -> tuple[int, ...]:
        """The next predicted ids; none while the text is elsewhere."""
        return self._ids[self._at : self._at + count] if self._follows else ()

    @property
    def accepted(self) -> int:
        """Predicted ids that came where the text followed the prediction."""
        return self._count

    @property
    def rejected(self) -> int:
        """Predicted ids that did not come."""
        return len(self._ids) - self._count

    def _note(self, latest: int) -> None:
        for place in range(self._at - latest, self._at):
            self._count += not self._came[place]
            self._came[place] = 1


class Guesses:
    """All that may be proposed for one session without a network, and the phase its answer is in."""

    def __init__(self, prediction: Sequence[int], phase: Phase, marks: Mapping[int, Phase]) -> None:
        """`marks` are the ids that begin a phase; `phase` is the first id's."""
        self._prediction = Prediction(prediction) if prediction else None
        self._copies, self._marks, self.phase = Copies(), marks, phase
        if self._prediction is not None and phase != "thinking":
            self._prediction.restart()

    def emitted(self, ids: Iterable[int]) -> None:
        """Take in what the answer went on with."""
        for token in ids:
            before, self.phase = self.phase, self._marks.get(token, self.phase)
            if self._prediction is not None:
                self._prediction.push(token)
                if before == "thinking" and self.phase != "thinking":
                    self._prediction.restart()

    def read(self, text: Callable[[int, int], Iterable[int]], length: int) -> None:
        """Take some more of the known text (prompt and answer), `length` ids by now, into the index of copies."""
        start = len(self._copies)
        self._copies.extend(text(start, min(length, start + READ_AT_ONCE)))

    def proposals(self, length: int, count: int) -> list[Proposal]:
        """Up to `count` next ids by each source that has any, after `length` known ones."""
        found = []
        if self._prediction is not None:
            found.append(self._proposal("prediction", self._prediction.agreed, self._prediction.ahead(count)))
        if len(self._copies) == length:
            found.append(self._proposal("copy", self._copies.agreed, self._copies.ahead(count)))
        return [proposal for proposal in found if proposal.ids]

    def predicted(self) -> tuple[int, int]:
        """Predicted ids that came, and that did not."""
        return (0, 0) if self._prediction is None else (self._prediction.accepted, self._prediction.rejected)

    def _proposal(self, source: Source, agreed: int, ids: tuple[int, ...]) -> Proposal:
        return Proposal(Subject(source, self.phase, agreed >= TRUSTED), ids)
