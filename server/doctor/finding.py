"""What the doctor says: findings, and facts that could not be had."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

log = logging.getLogger(__name__)

Fact = TypeVar("Fact")
Level = Literal["ok", "warn", "fail"]

SEVERITY: tuple[Level, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    area: str
    level: Level
    said: str
    """What was found."""
    advice: str = ""
    """What to do about it."""


@dataclass(frozen=True)
class Unread:
    """A fact that could not be had, and why."""

    why: str


def known(read: Callable[[], Fact]) -> Fact | Unread:
    """The fact, or why there is none: a damaged file is what the doctor is asked about, so it must survive each one."""
    try:
        return read()
    except (ValueError, OSError) as error:
        return Unread(str(error))
    # Foreign files reach into foreign code, which raises what it likes; the next fact may still be had.
    except Exception as error:
        log.debug("a fact could not be read", exc_info=True)
        return Unread(f"{type(error).__name__}: {error}")


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the gravest finding; "ok" where there is none."""
    return SEVERITY[max((SEVERITY.index(finding.level) for finding in findings), default=0)]
