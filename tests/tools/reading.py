"""Reading a text with a fresh reader, whole or cut, and the recorded cases."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tools.events import Piece, merged
from tools.laguna import Reader
from tools.stops import Stops

_UNITS = re.compile(r"</?think>|</?tool_call>|</?assistant>|</?arg|_value>|_key>| ?\w{1,4}|\s+|.", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """What the model wrote and what must be read from it."""

    name: str
    text: str
    tools: list[Any]
    thinking: bool
    end: Literal["stop", "length"]
    stop: list[str]
    expected: dict[str, Any]


def tool(name: str, properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def cases() -> list[Case]:
    lines = (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [_case(json.loads(line)) for line in lines]


def _case(line: dict[str, Any]) -> Case:
    tools = line["tools"]
    if isinstance(tools, dict):
        tools = [tool(name, *_parts(properties)) for name, properties in tools.items()]
    expected = {key: line[key] for key in ("reasoning", "content", "calls", "finish")}
    thinking, end, stop = line.get("thinking", False), line.get("end", "stop"), line.get("stop", [])
    return Case(line["id"], line["text"], tools, thinking, end, stop, expected)


def _parts(properties: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    return {key: schema for key, schema in properties.items() if key != "!required"}, properties.get("!required", [])


def read(
    chunks: Iterable[str],
    tools: Sequence[object],
    *,
    thinking: bool = False,
    end: Literal["stop", "length"] = "stop",
    stop: Sequence[str] = (),
) -> list[Piece]:
    """All pieces of a turn that arrives in `chunks`, neighbours joined."""
    reader, stops = Reader(list(tools), thinking), Stops(stop)
    pieces: list[Piece] = []
    for chunk in chunks:
        text, hit = stops.push(chunk)
        pieces += reader.push(text)
        if hit:
            return merged([*pieces, *reader.finish("stop")])
    pieces += reader.push(stops.finish())
    return merged([*pieces, *reader.finish(end)])


def cuts(text: str) -> Iterator[list[str]]:
    """The text cut in two at every position, into characters, and into blocks of 1 to 16 units as tokens are."""
    yield from ([text[:at], text[at:]] for at in range(len(text) + 1))
    yield list(text)
    units = _UNITS.findall(text)
    for size in range(1, 17):
        yield ["".join(units[at : at + size]) for at in range(0, len(units), size)]
