"""Machines with a known cost of every round, and drafters of known skill, for the width to learn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from models.decode.acceptance import Record, Subject
from models.decode.blocks import Offer, Wish
from models.decode.costs import bucket
from models.decode.pace import FRESH
from models.decode.width import Table, accept, candidates, decide, learn

Curve = Callable[[int, bool], float]
Skill = Callable[[int], float]
"""How likely a draft agrees, given how many tokens of the answer are there."""

SPECULATOR = Subject("speculator", "answer")


def linear(rows: int, drafting: bool) -> float:
    """Every row costs as much as a plain step, and drafting a third of one more."""
    return rows + 0.3 * drafting


def bundled(rows: int, drafting: bool) -> float:
    """What MLX's own BLAS measured on the CPU: 8 rows cost five to six steps."""
    return 0.4 + 0.6 * rows + 0.3 * drafting


def bandwidth(rows: int, drafting: bool) -> float:
    """Rows are nearly free, as with a BLAS that reads weights once."""
    return 0.95 + 0.05 * rows + 0.3 * drafting


def stepped(rows: int, drafting: bool) -> float:
    """Five rows are cheap, more are not (attention kernels change)."""
    return 1.0 + 0.1 * rows + 0.2 * drafting + 2.5 * (rows > 5)


def cliffs(rows: int, drafting: bool) -> float:
    """Six to eight rows fall between two kernels and cost twice what nine do."""
    return 0.9 + 0.1 * rows + 0.25 * drafting + (2.0 if 6 <= rows <= 8 else 0.0)


def steady(rate: float) -> Skill:
    return lambda done: rate


def switching(low: float, high: float, every: int) -> Skill:
    return lambda done: low if done // every % 2 == 0 else high


@dataclass
class Stream:
    """One session of the simulated batch."""

    record: Record
    done: int = 0
    blocks: int = 0


@dataclass
class Machine:
    """Sessions decoded side by side on a machine with a known curve, by a drafter of known skill."""

    curve: Curve
    skill: Skill
    streams: int = 1
    block: int = 8
    growth: float = 0.0
    """What a round costs more for each 1024 tokens of context, as a share."""
    table: Table | None = None
    noise: float = 0.0
    subject: Subject = SPECULATOR
    random: Random = field(default_factory=lambda: Random(1))
    latest: bool | None = None
    widths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.learned = Table(candidates(self.block)) if self.table is None else self.table
        self.record = self.learned.record.handed_on()

    def decode(self, tokens: int, fixed: int | None = None, drafts: bool = True) -> float:
        """Seconds for so many tokens of every stream, in plain steps; with a `fixed` width, nothing is learned."""
        streams = [Stream(self.record) for _ in range(self.streams)]
        seconds = 0.0
        while any(stream.done < tokens for stream in streams):
            running = [stream for stream in streams if stream.done < tokens]
            context = sum(stream.done for stream in running)
            rows = self._rows(running, tokens, bucket(context)) if fixed is None else [fixed] * len(running)
            if fixed is None:
                self.widths += rows
            took = self.curve(sum(rows), max(rows) > 1) * (1 + self.growth * context / 1024)
            took *= 1 + self.noise * self.random.random()
            seconds += took
            if fixed is None:
                self._learn(rows, took, bucket(context))
            for stream, width in zip(running, rows, strict=True):
                self._block(stream, width, learning=fixed is None)
            self.record = streams[0].record
        return seconds

    def _rows(self, running: list[Stream], tokens: int, place: int) -> list[int]:
        wishes = []
        for stream in running:
            most = min(self.block, tokens - stream.done)
            offer = Offer(self.subject, stream.record.of(self.subject), most, fresh=stream.blocks < FRESH)
            wishes.append(Wish((offer,) if most > 1 else ()))
        decision, self.learned = decide(self.learned, wishes, place)
        return list(decision.rows)

    def _learn(self, rows: list[int], took: float, place: int) -> None:
        drafting = max(rows) > 1
        steady, self.latest = drafting or self.latest is False, drafting
        kind = "drafted" if drafting else "plain"
        self.learned = learn(self.learned, kind, sum(rows), seconds=took, steady=steady, place=place)

    def _block(self, stream: Stream, rows: int, *, learning: bool) -> None:
        agreed = 0
        while agreed < rows - 1 and self.random.random() < self.skill(stream.done + agreed):
            agreed += 1
        if rows > 1 and learning:
            stream.record, stream.blocks = stream.record.after(self.subject, rows - 1, agreed), stream.blocks + 1
            self.learned = accept(self.learned, self.subject, rows - 1, agreed)
        elif learning:
            stream.record = stream.record.idle(self.subject)
        stream.done += agreed + 1

    def hindsight(self, tokens: int, runs: int = 2) -> tuple[float, float]:
        """Seconds of plain decoding and of the best fixed width (plain among them), known beforehand."""
        twin = Machine(self.curve, self.skill, self.streams, self.block, self.growth)
        plain = twin.decode(tokens, fixed=1)
        fixed = [sum(twin.decode(tokens, fixed=width) for _ in range(runs)) / runs for width in candidates(self.block)]
        return plain * (1 + self.noise / 2), min(fixed) * (1 + self.noise / 2)
