"""Answers as they were sampled: a conversation that comes back is given its own ids again, not an encoding of its text.

The text of an answer does not tell how it was cut into tokens, and a call's arguments are written anew by the template.
"""

import hashlib
import json
import re
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.laguna import Message, Reader, fold

OPENER, CLOSER = "<assistant>", "</assistant>"

_TURN = re.compile(f"{OPENER}.*?{CLOSER}", re.DOTALL)

MOST_IDS = 2_000_000
"""Ids kept in all; the answers not asked for longest go first."""

Meaning = tuple[str, str, tuple[tuple[str, str], ...]]
"""Reasoning, content, and each call's name and arguments, however their JSON is spaced and ordered."""


@dataclass(frozen=True)
class Said:
    """One answer: what the prompt ended in, which ids followed, and how they are read."""

    tail: tuple[int, ...]
    """The prompt's ids from the opener of the answer's turn on."""
    ids: tuple[int, ...]
    opens: str
    """The tail's text."""
    thinking: bool
    """It is read as thinking from its beginning on."""
    meaning: bytes
    """A digest of what was said."""

    @property
    def size(self) -> int:
        """Ids held."""
        return len(self.tail) + len(self.ids)


@dataclass(frozen=True)
class Spoken:
    """An assistant's turn in a rendered prompt: its ids `start..stop`, and its text from opener to closer."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class Splice:
    """Other ids for the ids `start..stop`."""

    start: int
    stop: int
    ids: tuple[int, ...]


class Replay:
    """Answers by the prompts that they were given to. Safe to use from any thread."""

    def __init__(self, most_ids: int = MOST_IDS) -> None:
        self._held: OrderedDict[bytes, list[Said]] = OrderedDict()
        self._most_ids, self._ids = most_ids, 0
        self._lock = threading.Lock()

    def remember(self, before: Sequence[int], said: Said) -> None:
        """Keep an answer that followed the ids `before` and its own tail."""
        self.keep(_digest(before).digest(), said)

    def keep(self, before: bytes, said: Said) -> None:
        """Keep an answer to the prompt of this digest."""
        with self._lock:
            answers = self._held.setdefault(before, [])
            self._held.move_to_end(before)
            if said in answers:
                answers.remove(said)
                self._ids -= said.size
            answers.append(said)
            self._ids += said.size
            while self._ids > self._most_ids and self._held:
                self._ids -= sum(said.size for said in self._held.popitem(last=False)[1])

    def splices(self, ids: Sequence[int], turns: Iterable[Spoken], tools: Sequence[Mapping[str, Any]]) -> list[Splice]:
        """What to put in place of the turns of a rendered prompt that mean what was sampled there, in order.

        A turn is replaced only where everything before it, replacements included, is what the answer was given to.
        """
        found: list[Splice] = []
        reached, prefix = 0, _digest(())
        for turn in turns:
            prefix.update(bytes_of(ids[reached : turn.start]))
            said = self._answer(prefix.digest(), turn, tools)
            taken = ids[turn.start : turn.stop]
            if said is not None:
                taken = (*said.tail, *said.ids, ids[turn.stop - 1])
                found.append(Splice(turn.start, turn.stop, taken))
            prefix.update(bytes_of(taken))
            reached = turn.stop
        return found

    def _answer(self, before: bytes, turn: Spoken, tools: Sequence[Mapping[str, Any]]) -> Said | None:
        for said in self._answers(before):
            body = turn.text.removeprefix(said.opens).removesuffix(CLOSER)
            shown = turn.text.startswith(said.opens) and turn.text.endswith(CLOSER)
            if shown and meaning(body, tools, thinking=said.thinking) == said.meaning:
                return said
        return None

    def _answers(self, before: bytes) -> Iterator[Said]:
        """What was answered to the prompt of this digest, the latest first."""
        with self._lock:
            answers = list(self._held.get(before, ()))
            if answers:
                self._held.move_to_end(before)
        yield from reversed(answers)


def spoken_turns(text: str) -> list[tuple[int, int]]:
    """The characters `start..stop` of the assistant's turns in a rendered prompt, opener and closer included.

    Text that only looks like a turn is found too; nothing was ever sampled there, so nothing replaces it.
    """
    return [match.span() for match in _TURN.finditer(text)]


def meaning(text: str, tools: Sequence[Mapping[str, Any]], *, thinking: bool) -> bytes:
    """A digest of what a turn says."""
    said = json.dumps(read(text, tools, thinking=thinking))
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


def read(text: str, tools: Sequence[Mapping[str, Any]], *, thinking: bool) -> Meaning:
    """What a turn says, read as an answer is."""
    reader = Reader([dict(tool) for tool in tools], thinking)
    message: Message = fold([*reader.push(text), *reader.finish("stop")])
    calls = tuple((call.name, _canonical(call.arguments)) for call in message.calls)
    return message.reasoning or "", message.content or "", calls


def spliced(ids: Sequence[int], splices: Sequence[Splice]) -> tuple[tuple[int, ...], Callable[[int], int | None]]:
    """The ids with `splices` put in, and where each old place lies in them (None: inside a splice)."""
    joined: list[int] = []
    reached = 0
    for splice in splices:
        joined += [*ids[reached : splice.start], *splice.ids]
        reached = splice.stop
    joined += ids[reached:]

    def moved(place: int) -> int | None:
        shift = 0
        for splice in splices:
            if place <= splice.start:
                break
            if place < splice.stop:
                return None
            shift += len(splice.ids) - (splice.stop - splice.start)
        return place + shift

    return tuple(joined), moved


def _canonical(arguments: str) -> str:
    return json.dumps(_plain(json.loads(arguments)), sort_keys=True)


def _plain(value: object) -> object:
    """JSON has one kind of number: a whole one is written as such."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def bytes_of(ids: Sequence[int]) -> bytes:
    """Ids as 32-bit numbers, one after another."""
    return array("I", ids).tobytes()


def _digest(ids: Sequence[int]) -> "hashlib.blake2b":
    return hashlib.blake2b(bytes_of(ids), digest_size=16)
