"""What a coding agent asks: a long system prompt with many tools, turns with results, an edit, and a fork."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from models.tiny.recipe.asks import FAMILIES, Family, invented_tool
from models.tiny.recipe.words import PHRASES
from tests.bench.asks import wired
from tests.bench.client import Body

TOOLS = 24
TURNS = 8
EDITED_AT, FORKED_AT = 5, 7
"""Turns before which something earlier is edited, and after which the conversation starts over from its middle."""
ROOM = 48

Json = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """Everything but the answers."""

    system: str
    tools: tuple[Json, ...]
    turns: tuple["Wish", ...]


@dataclass(frozen=True)
class Wish:
    """One turn: what the user says, the call that fulfils it, and the call's result."""

    phrase: str
    call: Json
    result: str


def script(seed: str, characters: int) -> Script:
    """A script that nobody else has from its first words on; its system prompt has so many characters."""
    rng = Random(seed)
    text = f"You are agent {seed}."
    while len(text) < characters:
        text = f"{text} {rng.choice(PHRASES).capitalize()}."
    families: list[Family] = []
    while len(families) < TOOLS:
        family = rng.choice(FAMILIES)(rng) if rng.random() < 0.3 else invented_tool(rng)
        if family.name not in {other.name for other in families}:
            families.append(family)
    return Script(text, tuple(map(_declared, families)), tuple(_wish(rng, rng.choice(families)) for _ in range(TURNS)))


def _wish(rng: Random, family: Family) -> Wish:
    ask = family.ask(rng)
    return Wish(ask.phrase, {"name": family.name, "arguments": json.dumps(ask.arguments)}, ask.result)


def _declared(family: Family) -> Json:
    parameters = {"type": "object", "properties": family.properties, "required": list(family.required)}
    return {
        "type": "function",
        "function": {"name": family.name, "description": family.description, "parameters": parameters},
    }


def requests(told: Script) -> "Conversation":
    """The conversation before its first request."""
    return Conversation(told, [{"role": "system", "content": told.system}])


@dataclass
class Conversation:
    """The messages so far; the answers come from whoever answers."""

    script: Script
    messages: list[Json]

    def body(self) -> Body:
        """The next request."""
        return {
            "messages": [wired(message) for message in self.messages],
            "tools": list(self.script.tools),
            "temperature": 0,
            "max_tokens": ROOM,
            "chat_template_kwargs": {"enable_thinking": True},
        }

    def play(self, answer: Callable[[str, Body], Json]) -> None:
        """Go through the script; `answer` is told what kind of request it gets, and returns the assistant's message."""
        starts = list[int]()
        for turn, wish in enumerate(self.script.turns):
            starts.append(len(self.messages))
            if turn == EDITED_AT:
                self._edit(starts[turn // 2])
            self.messages.append({"role": "user", "content": wish.phrase})
            if turn % 2:
                self._called(turn, wish)
            self._answered(answer, "edit" if turn == EDITED_AT else "result" if turn % 2 else "turn", wish.result)
        del self.messages[starts[FORKED_AT // 2] :]
        self.messages.append({"role": "user", "content": "Start over from here, and be brief."})
        self._answered(answer, "fork", "{}")

    def _answered(self, answer: Callable[[str, Body], Json], kind: str, result: str) -> None:
        message = answer(kind, self.body())
        self.messages.append(message)
        if message.get("tool_calls"):
            called: Sequence[Json] = message["tool_calls"]
            self.messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": f'{{"result": {place}, "of": {result}}}'}
                for place, call in enumerate(called)
            ]
            self.messages.append(answer("result", self.body()))

    def _called(self, turn: int, wish: Wish) -> None:
        """The client calls the tool itself, so that every conversation has results, whatever is answered."""
        call = {"id": f"own_{turn}", "type": "function", "function": wish.call}
        self.messages += [
            {"role": "assistant", "content": "", "reasoning_content": "I call it.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"own_{turn}", "content": wish.result},
        ]

    def _edit(self, place: int) -> None:
        """Another word in the middle of what the user said there."""
        said = self.messages[place]["content"]
        middle = said.index(" ", len(said) // 2) if " " in said[len(said) // 2 :] else len(said)
        self.messages[place] = {"role": "user", "content": f"{said[:middle]} now{said[middle:]}"}
