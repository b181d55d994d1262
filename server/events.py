"""Everything a generation can say, in no vendor's dialect, and the answer it adds up to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from tools.events import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning, Token
from tools.laguna import Message

__all__ = [
    "Answer",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "FinishReason",
    "Finished",
    "Piece",
    "Reasoning",
    "Report",
    "Token",
    "Usage",
    "summed",
]

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn; the answer's end at the stop, whatever was decoded beyond it."""

    prompt: int
    completion: int
    reasoning: int
    """Those of `completion` whose text was shown as reasoning."""
    cached: int
    predicted: int = 0
    """Tokens of the request's own prediction that came, and those that did not."""
    unpredicted: int = 0

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Report:
    """What speculation did for one turn."""

    rounds: int
    drafted: int
    accepted: int
    prefill_seconds: float
    decode_seconds: float
    cached_tokens: int
    sources: Mapping[str, Mapping[str, int]]
    """By who drafted (speculator, prediction, copy, grammar): tokens drafted and accepted."""
    speculation_off: str | None
    """Why nothing was drafted, or None."""
    cache_parted: str | None
    """Where the prompt left what was kept of earlier ones, or None where it went on from it or nothing was kept."""
    drafted_by_depth: Sequence[int] = field(default_factory=list)
    accepted_by_depth: Sequence[int] = field(default_factory=list)
    """How many blocks drafted so deep, and in how many of them every draft up to there was accepted."""


@dataclass(frozen=True)
class Finished:
    """The last event of every generation that did not fail."""

    reason: FinishReason
    usage: Usage
    report: Report
    stop: str | None = None
    """The one of the client's stop strings that ended it."""


Event = Piece | Finished


@dataclass(frozen=True)
class Answer:
    """A whole turn: the fold of its events."""

    message: Message
    finished: Finished
    tokens: tuple[Token, ...] = ()
    """Those of the content, where that was asked for."""
    pieces: tuple[Piece, ...] = ()
    """What `message` is the fold of, in the order in which it was said."""


def summed(ends: Sequence[Finished], choices: int | None = None) -> tuple[Usage, Report]:
    """What all answers took together, times the longest of them.

    Each run of `choices` answers (None: all) shares a prompt, which is counted once.
    """
    usages, reports = [end.usage for end in ends], [end.report for end in ends]
    shared = [usages[start : start + (choices or len(ends))] for start in range(0, len(ends), choices or len(ends))]
    usage = Usage(
        prompt=sum(own[0].prompt for own in shared),
        completion=sum(usage.completion for usage in usages),
        reasoning=sum(usage.reasoning for usage in usages),
        cached=sum(min(usage.cached for usage in own) for own in shared),
        predicted=sum(usage.predicted for usage in usages),
        unpredicted=sum(usage.unpredicted for usage in usages),
    )
    off = [report.speculation_off for report in reports]
    return usage, replace(
        reports[0],
        rounds=sum(report.rounds for report in reports),
        drafted=sum(report.drafted for report in reports),
        accepted=sum(report.accepted for report in reports),
        prefill_seconds=max(report.prefill_seconds for report in reports),
        decode_seconds=max(report.decode_seconds for report in reports),
        cached_tokens=usage.cached,
        sources=_together([report.sources for report in reports]),
        drafted_by_depth=_by_depth([report.drafted_by_depth for report in reports]),
        accepted_by_depth=_by_depth([report.accepted_by_depth for report in reports]),
        speculation_off=None if None in off else off[0],
        cache_parted=reports[0].cache_parted,
    )


def _by_depth(counts: Sequence[Sequence[int]]) -> list[int]:
    return list(map(sum, zip_longest(*counts, fillvalue=0)))


def _together(sources: Sequence[Mapping[str, Mapping[str, int]]]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for source, counts in (item for own in sources for item in own.items()):
        before = found.setdefault(source, dict.fromkeys(counts, 0))
        found[source] = {name: before[name] + count for name, count in counts.items()}
    return found
