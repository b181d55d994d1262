"""The dialect as a table: in which state which sign does what and leads where. Nothing here runs.

turn      START → (<think>) THOUGHT_START, THOUGHT → (</think>) START → ANSWER → (<tool_call>) call → AFTER …
call      NAME → KEY → KEYED → OPENED, VALUE → CLOSING → KEY … or AFTER; without <arg_value> KEYED → BARE → BARE_CLOSING
thinking  a call inside THOUGHT is read by the same rows, but leads to HELD until what follows shows if it was meant
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tools.tags import Sign


class State(StrEnum):
    """Where in a turn the reader stands."""

    START = "no answer yet"
    ANSWER = "in the answer"
    AFTER = "right after a call"
    THOUGHT_START = "thinking, nothing thought yet"
    THOUGHT = "thinking"
    ENDED = "the turn is over"
    NAME = "in a call's name"
    KEY = "in a key"
    KEYED = "between a key and its value"
    OPENED = "right after <arg_value>"
    VALUE = "in a value"
    CLOSING = "after an </arg_value> that may be part of the value"
    BARE = "in a value without its <arg_value>"
    BARE_CLOSING = "the same, after an </arg_value>"
    HELD = "after a call inside thinking"


class Act(StrEnum):
    """What is done with a token. An act may refuse: then the token is none a call can have here."""

    SHOW = "content"
    REASON = "reasoning"
    DROP = "a mark, not shown"
    OPEN = "a call may begin"
    TRY = "a call may begin inside thinking"
    RETRY = "another one after it"
    COMMIT = "the calls inside thinking were meant"
    KEEP = "belongs to the call, says nothing"
    NAME = "text of the name"
    NAME_AGAIN = "a doubled <tool_call>: refused unless no name began"
    NAMED = "the name is whole, a key begins"
    NAMED_ALONE = "the name is whole, and so is the call"
    NAME_SPLIT = "name and key with the <arg_key> between them forgotten"
    KEY = "text of the key"
    KEY_AGAIN = "a doubled <arg_key>: refused unless the key is blank"
    KEY_END = "the key is whole"
    GAP = "white space before a value"
    VALUE = "a value begins"
    BARE = "a value begins without its tag: refused for undeclared tools"
    WRITE = "text of the value"
    WRITE_UNLESS_THINKING = "text of the value, but inside thinking it closes the thinking"
    HOLD = "an </arg_value> and what follows it, until that decides"
    HOLD_AGAIN = "the last </arg_value> was text, this one may not be"
    RESUME = "it was text, and so is this"
    RESUME_UNLESS_THINKING = "the same, but inside thinking it closes the thinking"
    NEXT_KEY = "the value is whole, another key begins"
    CALL_END = "the value is whole, and so is the call"
    TURN_END = "both, without a closing tag: refused if something required is missing, and inside thinking"


@dataclass(frozen=True, slots=True)
class Step:
    """Do `act`, then go to `to`."""

    act: Act
    to: State


Row = Mapping[Sign, Step]

OUTSIDE = frozenset({State.START, State.ANSWER, State.AFTER, State.THOUGHT_START, State.THOUGHT, State.ENDED})
"""States outside any call. Their rows are complete; a sign that a call's row lacks is read again in one of these."""


def _row(rest: Step, but: Row) -> Row:
    return {**dict.fromkeys(Sign, rest), **but}


_OVER = Step(Act.DROP, State.ENDED)
_ENDS: Row = {Sign.TURN_END: _OVER, Sign.STOP: _OVER, Sign.LENGTH: _OVER}

_SHOW = Step(Act.SHOW, State.ANSWER)
_OPEN = Step(Act.OPEN, State.NAME)
_REASON = Step(Act.REASON, State.THOUGHT)
_THINK = Step(Act.DROP, State.THOUGHT_START)
_THOUGHT: Row = {Sign.THINK_END: Step(Act.DROP, State.START), Sign.CALL: Step(Act.TRY, State.NAME), **_ENDS}

_WRITE = Step(Act.WRITE, State.VALUE)
_VALUE: Row = {
    **dict.fromkeys(Sign, _WRITE),
    Sign.THINK_END: Step(Act.WRITE_UNLESS_THINKING, State.VALUE),
    Sign.VALUE_END: Step(Act.HOLD, State.CLOSING),
}
_CLOSED: Row = {
    Sign.KEY: Step(Act.NEXT_KEY, State.KEY),
    Sign.CALL_END: Step(Act.CALL_END, State.AFTER),
    Sign.TURN_END: Step(Act.TURN_END, State.ENDED),
    Sign.STOP: Step(Act.TURN_END, State.ENDED),
}


def _without(row: Row, *signs: Sign) -> Row:
    return {sign: step for sign, step in row.items() if sign not in signs}


TABLE: Mapping[State, Row] = {
    State.START: _row(
        _SHOW,
        {
            Sign.BLANK: Step(Act.SHOW, State.START),
            Sign.THINK: _THINK,
            Sign.THINK_END: Step(Act.DROP, State.START),
            Sign.CALL: _OPEN,
            **_ENDS,
        },
    ),
    State.ANSWER: _row(_SHOW, {Sign.THINK_END: Step(Act.DROP, State.ANSWER), Sign.CALL: _OPEN, **_ENDS}),
    State.AFTER: _row(
        _SHOW,
        {
            Sign.BLANK: Step(Act.SHOW, State.AFTER),
            Sign.THINK_END: Step(Act.DROP, State.AFTER),
            Sign.CALL: _OPEN,
            Sign.CALL_END: Step(Act.DROP, State.AFTER),
            **_ENDS,
        },
    ),
    State.THOUGHT_START: _row(
        _REASON, {Sign.BLANK: Step(Act.REASON, State.THOUGHT_START), Sign.THINK: _THINK, **_THOUGHT}
    ),
    State.THOUGHT: _row(_REASON, _THOUGHT),
    State.ENDED: _row(_OVER, {}),
    State.NAME: {
        Sign.TEXT: Step(Act.NAME, State.NAME),
        Sign.BLANK: Step(Act.NAME, State.NAME),
        Sign.CALL: Step(Act.NAME_AGAIN, State.NAME),
        Sign.KEY: Step(Act.NAMED, State.KEY),
        Sign.KEY_END: Step(Act.NAME_SPLIT, State.KEYED),
        Sign.CALL_END: Step(Act.NAMED_ALONE, State.AFTER),
    },
    State.KEY: {
        Sign.TEXT: Step(Act.KEY, State.KEY),
        Sign.BLANK: Step(Act.KEY, State.KEY),
        Sign.KEY: Step(Act.KEY_AGAIN, State.KEY),
        Sign.KEY_END: Step(Act.KEY_END, State.KEYED),
    },
    State.KEYED: {
        Sign.BLANK: Step(Act.GAP, State.KEYED),
        Sign.KEY_END: Step(Act.KEEP, State.KEYED),
        Sign.VALUE: Step(Act.VALUE, State.OPENED),
        Sign.TEXT: Step(Act.BARE, State.BARE),
    },
    State.OPENED: {**_without(_VALUE, Sign.STOP, Sign.LENGTH), Sign.VALUE: Step(Act.KEEP, State.OPENED)},
    State.VALUE: _without(_VALUE, Sign.STOP, Sign.LENGTH),
    State.CLOSING: {
        **dict.fromkeys(_without(_VALUE, Sign.STOP, Sign.LENGTH), Step(Act.RESUME, State.VALUE)),
        Sign.BLANK: Step(Act.HOLD, State.CLOSING),
        Sign.VALUE_END: Step(Act.HOLD_AGAIN, State.CLOSING),
        Sign.THINK_END: Step(Act.RESUME_UNLESS_THINKING, State.VALUE),
        **_CLOSED,
    },
    State.BARE: {
        Sign.TEXT: Step(Act.WRITE, State.BARE),
        Sign.BLANK: Step(Act.WRITE, State.BARE),
        Sign.VALUE_END: Step(Act.HOLD, State.BARE_CLOSING),
    },
    State.BARE_CLOSING: {
        Sign.TEXT: Step(Act.RESUME, State.BARE),
        Sign.BLANK: Step(Act.HOLD, State.BARE_CLOSING),
        Sign.VALUE_END: Step(Act.HOLD_AGAIN, State.BARE_CLOSING),
        **_CLOSED,
    },
    State.HELD: {
        Sign.BLANK: Step(Act.KEEP, State.HELD),
        Sign.CALL_END: Step(Act.KEEP, State.HELD),
        Sign.CALL: Step(Act.RETRY, State.NAME),
        Sign.TURN_END: Step(Act.COMMIT, State.ENDED),
        Sign.STOP: Step(Act.COMMIT, State.ENDED),
    },
}
