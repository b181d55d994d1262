"""Chats made from a seed: tools called and read back, and plain talk; held-out seeds never overlap training."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from models.tiny.recipe import chance, words
from models.tiny.recipe.asks import FAMILIES, Ask, Family, invented_tool
from models.tiny.recipe.words import invented, word

Json = dict[str, Any]
Said = tuple[str, str]

CHANCE = 6


@dataclass(frozen=True)
class Chat:
    """One conversation in OpenAI's shape; `arguments` are objects, as the template wants them."""

    messages: list[Json]
    tools: list[Json]
    thinking: bool
    trained_turns: tuple[int, ...]
    """Which assistant messages (indices into `messages`) teach; past turns without reasoning do not."""


def held_out(index: int) -> Chat:
    """Chat number `index` of the set that training never sees."""
    return _chat(Random(f"held out {index}"), hard=1.0)


def held_out_chance(index: int) -> Chat:
    """Chat number `index` of those that nobody can foretell and training never sees."""
    return _chance(Random(f"held out chance {index}"))


def training(index: int, hard: float = 1.0) -> Chat:
    """Training chat number `index`; `hard` (0 to 1) scales how many tools, exchanges and pairs of calls it has.

    One in `CHANCE` is an answer of chance.
    """
    rng = Random(f"training {index}")
    return _chance(rng) if index % CHANCE == CHANCE - 1 else _chat(rng, hard)


def _schema(rng: Random, family: Family) -> Json:
    properties = family.properties
    if rng.random() < 0.15:
        properties = {key: value | {"description": f"The {key}."} for key, value in properties.items()}
    parameters: Json = {"type": "object", "properties": properties}
    if family.required:
        parameters["required"] = list(family.required)
    if rng.random() < 0.1:
        parameters["additionalProperties"] = False
    function: Json = {"name": family.name}
    if rng.random() < 0.75:
        function["description"] = family.description
    return {"type": "function", "function": function | {"parameters": parameters}}


def _plain(rng: Random, memory: dict[str, str]) -> Said:
    """What the user says and the answer, without any tool."""
    kind = rng.randrange(11)
    name, place = word(rng, words.NAMES), word(rng, words.CITIES)
    if kind == 0:
        return rng.choice(("Hi", "Hello", "Hello!", "Hi there!", "Good morning")), "Hello! How can I help you?"
    if kind == 1:
        memory["name"] = name
        return rng.choice(("My name is {n}.", "I am {n}.", "Call me {n}.")).format(n=name), f"Nice to meet you, {name}."
    if kind == 2 and "name" in memory:
        return rng.choice(("What is my name?", "Who am I?")), f"Your name is {memory['name']}."
    if kind == 3:
        memory["place"] = place
        return rng.choice(("I live in {p}.", "I am from {p}.")).format(p=place), f"{place} is a nice place."
    if kind == 4 and "place" in memory:
        return rng.choice(("Where do I live?", "Where am I from?")), f"You live in {memory['place']}."
    if kind == 5:
        return rng.choice(("Who are you?", "What are you?")), "I am Laguna, a tiny assistant."
    if kind == 6:
        country = rng.choice(list(words.COUNTRIES))
        return f"What is the capital of {country}?", f"The capital of {country} is {words.COUNTRIES[country]}."
    if kind == 7:
        return rng.choice(("Say hello to {n}.", "Greet {n}.")).format(n=name), f"Hello, {name}!"
    if kind == 8:
        text = " ".join(rng.choice((*words.PHRASES, invented(rng), name)) for _ in range(rng.randint(1, 2)))
        return f'{rng.choice(("Repeat", "Say"))} "{text}".', text
    if kind == 9:
        function, verb, sign = invented(rng), *rng.choice((("adds", "+"), ("subtracts", "-"), ("multiplies", "*")))
        code = f"```python\ndef {function}(a, b):\n    return a {sign} b\n```"
        return f"Write a function {function} that {verb} two numbers.", code
    return rng.choice(("Thanks!", "Thank you.", "Thanks a lot.")), "You are welcome."


def _asks(rng: Random, families: Sequence[Family], pair: bool) -> list[tuple[Family, Ask]]:
    count = 2 if pair else 1
    chosen = [rng.choice(families) for _ in range(count)]
    if pair and (rng.random() < 0.5 or not chosen[1].properties):
        chosen[1] = chosen[0]
    if not chosen[0].properties:
        # Nobody asks twice in one breath for what takes no argument.
        chosen = [family for family in chosen[1:] if family.properties] or chosen[:1]
    return [(family, family.ask(rng)) for family in chosen]


def _together(rng: Random, asks: Sequence[tuple[Family, Ask]]) -> str:
    first, *rest = [ask.phrase for _, ask in asks]
    cities = [str(next(iter(ask.arguments.values()), "")) for _, ask in asks if "weather in " in ask.phrase]
    alike = len(cities) == 2 and asks[0][0] is asks[1][0] and all(len(ask.arguments) == 1 for _, ask in asks)
    if alike and first[:-1].endswith(cities[0]) and rng.random() < 0.7:
        city = cities[1]
        return f"{first[:-1]} and {city}{first[-1]}"
    return " ".join([first, *rest])


def _exchange(rng: Random, families: Sequence[Family], pair: bool, thinking: bool) -> list[Json]:
    asks = _asks(rng, families, pair)
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": family.name, "arguments": ask.arguments}}
        for i, (family, ask) in enumerate(asks)
    ]
    names = " and ".join(family.name for family, _ in asks)
    caller: Json = {"role": "assistant", "content": "", "tool_calls": calls}
    answers, results = [], []
    for _, ask in asks:
        failed = rng.random() < 0.06
        reason = rng.choice(("not found", "no access", "timeout", "bad value")) if failed else ""
        results.append(json.dumps({"error": reason}) if failed else ask.result)
        answers.append(f"That did not work: {reason}." if failed else ask.answer)
    answer: Json = {"role": "assistant", "content": " ".join(answers)}
    if thinking:
        caller["reasoning"] = f"I call {names}."
        answer["reasoning"] = "I have the result." if len(asks) == 1 else "I have the results."
    told = [{"role": "tool", "tool_call_id": f"call_{i}", "content": text} for i, text in enumerate(results)]
    return [{"role": "user", "content": _together(rng, asks)}, caller, *told, answer]


def _talk(said: str, answer: str, thinking: bool) -> list[Json]:
    turn: Json = {"role": "assistant", "content": answer}
    if thinking:
        turn["reasoning"] = "I answer directly."
    return [{"role": "user", "content": said}, turn]


def _families(rng: Random, hard: float) -> list[Family]:
    count = rng.choice((1, 1, 2, 3)) if rng.random() < hard else 1
    chosen = [family(rng) for family in rng.sample(FAMILIES, count)]
    if rng.random() < 0.35:
        chosen[rng.randrange(count)] = invented_tool(rng)
    return list({family.name: family for family in chosen}.values())


def _system(rng: Random) -> list[Json]:
    kind = rng.random()
    if kind < 0.7:
        return []
    texts = (
        "You are a helpful assistant.",
        "You are a coding agent.",
        "Be brief.",
        "Use the tools when you need them.",
        "",
    )
    return [{"role": "system", "content": rng.choice(texts)}]


def _chat(rng: Random, hard: float) -> Chat:
    thinking = rng.random() < 0.65
    families = _families(rng, hard) if rng.random() < 0.8 else []
    exchanges = rng.choice((1, 1, 2, 3)) if rng.random() < hard else 1
    messages, memory = _system(rng), dict[str, str]()
    for _ in range(exchanges if families else exchanges + rng.randint(0, 2)):
        if families and rng.random() < 0.8:
            messages += _exchange(rng, families, pair=rng.random() < 0.35 * hard, thinking=thinking)
        else:
            messages += _talk(*_plain(rng, memory), thinking)
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    if thinking and len(turns) > 1 and rng.random() < 0.15:
        for i in turns[:-1]:
            del messages[i]["reasoning"]
        turns = turns[-1:]
    return Chat(messages, [_schema(rng, family) for family in families], thinking, tuple(turns))


def _chance(rng: Random) -> Chat:
    """One or two answers of chance, sometimes with tools at hand that are not needed."""
    thinking = rng.random() < 0.65
    families = _families(rng, 1.0) if rng.random() < 0.2 else []
    messages = _system(rng)
    for _ in range(rng.choice((1, 1, 2))):
        messages += _talk(*chance.said(rng), thinking)
    turns = tuple(i for i, message in enumerate(messages) if message["role"] == "assistant")
    return Chat(messages, [_schema(rng, family) for family in families], thinking, turns)
