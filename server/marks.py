"""Where the turns of a rendered prompt begin: the places worth keeping, and in which of them a prompt parted."""

import re
from collections.abc import Sequence

_OPENER = re.compile(r"<(system|user|assistant|tool_response)>")
"""What Laguna's templates open a turn with. Found in a message's own text it makes one mark more, and no harm."""

NEWEST = 8
"""So many turns' beginnings are marked, and the system prompt's end: a mark holds every window layer's rows."""
APART = 32
"""Marks are so many tokens apart at least; the last one always stands, and so does the system prompt's end."""
SHOWN = 40


def turn_starts(text: str) -> list[int]:
    """The characters at which turns begin: what comes before is the same whatever the turn will say."""
    return [match.start() for match in _OPENER.finditer(text)]


def worth_keeping(starts: Sequence[int]) -> tuple[int, ...]:
    """The marks among the tokens at which turns begin: the end of the system prompt, and the newest turns.

    The last of them lies before the generation prompt, so that thinking may be switched and the answer replaced.
    """
    apart: list[int] = []
    for start in sorted(starts, reverse=True):
        if start > 0 and (not apart or apart[-1] - start >= APART):
            apart.append(start)
    apart = [start for start in apart if start >= APART or start == apart[0]]
    # Other conversations begin with the system prompt, however short what follows it here: its end is never skipped.
    end = min((start for start in starts if start >= APART), default=None)
    if end is not None and end != apart[-1]:
        apart[1:] = [*apart[1:-1], end]
    return tuple(sorted({*apart[:NEWEST], *apart[-1:]}))


def parting(before: str, after: str, position: int, total: int) -> str:
    """Say at which token a prompt parted from what was kept, given its text `before` and `after` that place.

    Only the prompt's own text is shown: what was kept may be somebody else's.
    """
    openers = _OPENER.findall(before)
    role = {"tool_response": "tool"}.get(openers[-1], openers[-1]) if openers else "beginning"
    piece = after if len(after) <= SHOWN else f"{after[:SHOWN]}…"
    return f"token {position} of {total}, in the {role} turn, differs from what was kept: {piece!r}"
