"""Texts written to make a reader slow, and what a megabyte of each costs: `python -m tests.tools.hostile`."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tests.tools.reading import tool
from tools.laguna import Reader
from tools.stops import Stops

MEGABYTE = 1 << 20
_CALL = "<tool_call>f"
_VALUE = _CALL + "<arg_key>k</arg_key><arg_value>"
_TOOLS = [tool("f", {"k": {"type": "string"}, "n": {"type": "integer"}, "u": {"type": ["string", "null", "object"]}})]
_TOOLS += [tool(f"other_{number}", {"k": {"type": "object"}}) for number in range(40)]


@dataclass(frozen=True)
class Flood:
    """`start`, then `unit` again and again, then `end`."""

    unit: str
    start: str = ""
    end: str = ""
    thinking: bool = False

    def text(self, size: int) -> str:
        return self.start + self.unit * (size // len(self.unit)) + self.end


_END = "</arg_value></tool_call>"
FLOODS: Mapping[str, Flood] = {
    "prose": Flood("lorem ipsum "),
    "newlines": Flood("\n"),
    "less-than signs": Flood("<"),
    "call openers": Flood("<tool_call>"),
    "named call openers": Flood(_CALL),
    "calls up to the key": Flood(_CALL + "<arg_key>"),
    "calls up to the value": Flood(_VALUE),
    "keys without end": Flood("<arg_key>a", _CALL),
    "a name without end": Flood("a", "<tool_call>"),
    "spaces before a name": Flood(" ", "<tool_call>"),
    "spaces after a name": Flood(" ", _CALL),
    "spaces in a key": Flood(" ", _CALL + "<arg_key>"),
    "spaces before a value": Flood(" ", _CALL + "<arg_key>k</arg_key>"),
    "spaces after a value": Flood(" ", _VALUE + "</arg_value>"),
    "spaces in a union": Flood(" ", _CALL + "<arg_key>u</arg_key><arg_value>", "x" + _END),
    "value closers": Flood("</arg_value>", _VALUE, "</tool_call>"),
    "value closers and spaces": Flood("</arg_value> \n", _VALUE, "</tool_call>"),
    "a value without opener": Flood("y </arg_value> ", _CALL + "<arg_key>k</arg_key>x"),
    "partial tags": Flood("<tool_cal<arg_ke</arg_valu<thin"),
    "partial closers in a value": Flood("</arg_valu", _VALUE, _END),
    "turn ends in a value": Flood("</assistant>", _VALUE),
    "escaped quotes": Flood("\\'", _CALL + "<arg_key>n</arg_key><arg_value>", _END),
    "brackets": Flood("[", _CALL + "<arg_key>u</arg_key><arg_value>", _END),
    "digits": Flood("9", _CALL + "<arg_key>n</arg_key><arg_value>", _END),
    "think openers": Flood("<think>"),
    "think openers in thinking": Flood("<think>", thinking=True),
    "think closers": Flood("</think>", thinking=True),
    "think pairs": Flood("<think></think>"),
    "calls": Flood(_CALL + "</tool_call>"),
    "calls in thinking": Flood(_CALL + "</tool_call>", thinking=True),
    "mentions in thinking": Flood(_CALL + "</tool_call>x", thinking=True),
    "call openers in thinking": Flood(_VALUE, thinking=True),
    "arguments": Flood("<arg_key>k</arg_key><arg_value>v</arg_value>", _CALL, "</tool_call>"),
    "names that nearly split": Flood("<tool_call>fk x"),
}


def read(text: str, step: int, *, thinking: bool) -> None:
    """Read `text` in pushes of `step` characters."""
    reader = Reader(_TOOLS, thinking)
    for at in range(0, len(text), step):
        reader.push(text[at : at + step])
    reader.finish("stop")


def stop(text: str, step: int, strings: list[str]) -> None:
    """The same for stop strings."""
    stops = Stops(strings)
    for at in range(0, len(text), step):
        stops.push(text[at : at + step])
    stops.finish()


def _seconds(work: Callable[[int], None], steps: Sequence[int]) -> str:
    told = []
    for step in steps:
        begin = time.process_time()
        work(step)
        told.append(f"{time.process_time() - begin:7.3f}")
    return " ".join(told)


def main() -> None:
    """Print seconds per megabyte, pushed whole, four characters at a time (about a token) and one at a time."""
    logging.disable(logging.WARNING)
    steps = (MEGABYTE * 2, 4, 1)
    print(f"{'process seconds per MB':30} {'whole':>7} {'by 4':>7} {'by 1':>7}")
    for name, flood in FLOODS.items():
        print(f"{name:30}", _seconds(partial(read, flood.text(MEGABYTE), thinking=flood.thinking), steps))
    for name, strings in {"stops: a^16 b": ["a" * 16 + "b"], "stops: a^500 b": ["a" * 500 + "b", "ab" * 9]}.items():
        print(f"{name:30}", _seconds(partial(stop, "a" * MEGABYTE, strings=strings), steps))


if __name__ == "__main__":
    main()
