"""What a user may want of a tool: its schema, the user's words, the call, its result and the answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from models.tiny.recipe import words
from models.tiny.recipe.words import invented, number, word

Json = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """One wish: the user's words, the arguments of the call that fulfils it, its result, and what to say then."""

    phrase: str
    arguments: Json
    result: str
    answer: str


@dataclass(frozen=True)
class Family:
    """A tool as a request declares it, and a source of wishes for it."""

    name: str
    description: str
    properties: dict[str, Json]
    required: tuple[str, ...]
    ask: Callable[[Random], Ask]


def _keep(**values: Json | str | float | bool | list[str] | None) -> Json:
    return {key: value for key, value in values.items() if value is not None}


def weather(rng: Random) -> Family:
    """City, and perhaps a unit, in; temperature and sky out."""
    key, with_unit = rng.choice(("city", "city", "place", "location", "town")), rng.random() < 0.6

    def ask(rng: Random) -> Ask:
        city = word(rng, words.CITIES)
        unit = rng.choice(("celsius", "fahrenheit")) if with_unit and rng.random() < 0.4 else None
        phrase = rng.choice(
            (
                "What is the weather in {c}{u}?",
                "What is the weather like in {c}{u}?",
                "How is the weather in {c}{u}?",
                "Tell me the weather in {c}{u}.",
                "What's the weather in {c}{u}?",
                "Show the weather for {c}{u}, please.",
                "What is the weather in {c}{u} today?",
                "What is the weather in {c}{u} right now?",
                "Can you tell me the weather in {c}{u}?",
            )
        ).format(c=city, u=f" in {unit}" if unit else "")
        heat, sky = number(rng, 40), rng.choice(words.SKIES)
        result = {"temperature": heat, "sky": sky} if rng.random() < 0.7 else {"sky": sky, "temperature": heat}
        return Ask(
            phrase, _keep(**{key: city, "unit": unit}), json.dumps(result), f"It is {heat} degrees and {sky} in {city}."
        )

    unit: dict[str, Json] = {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}} if with_unit else {}
    name = rng.choice(("get_weather", "get_weather", "weather", "current_weather", "weather_lookup"))
    return Family(name, "Get the weather in a city.", {key: {"type": "string"}} | unit, (key,), ask)


def read_file(rng: Random) -> Family:
    """A path in, one line of text out."""
    key = rng.choice(("path", "file", "filename"))

    def ask(rng: Random) -> Ask:
        path, text = words.path(rng), rng.choice(words.PHRASES)
        phrase = rng.choice(("Read {p}.", "Read the file {p}.", "Open {p}, please.", "What is in {p}?", "Show me {p}."))
        return Ask(phrase.format(p=path), {key: path}, text, f"{path} says: {text}")

    name = rng.choice(("read_file", "read_file", "open_file", "read"))
    return Family(name, "Read a file.", {key: {"type": "string"}}, (key,), ask)


def write_file(rng: Random) -> Family:
    """A path and a text in."""
    path_key, text_key = rng.choice(("path", "file")), rng.choice(("text", "content"))

    def ask(rng: Random) -> Ask:
        path, text = words.path(rng), rng.choice(words.PHRASES)
        phrase = rng.choice(('Write "{t}" to {p}.', 'Save "{t}" in {p}.', 'Put "{t}" into {p}, please.'))
        return Ask(phrase.format(t=text, p=path), {path_key: path, text_key: text}, "ok", f"I wrote {path}.")

    properties: dict[str, Json] = {path_key: {"type": "string"}, text_key: {"type": "string"}}
    return Family(rng.choice(("write_file", "save_file")), "Write a file.", properties, (path_key, text_key), ask)


def edit_file(rng: Random) -> Family:
    """A path, the old text and the new text in: an agent's edit."""
    old_key, new_key = rng.choice((("old", "new"), ("old_text", "new_text"), ("before", "after")))

    def ask(rng: Random) -> Ask:
        path, (old, new) = words.path(rng), rng.sample(words.PHRASES, 2)
        phrase = rng.choice(('Replace "{o}" with "{n}" in {p}.', 'Change "{o}" to "{n}" in {p}, please.'))
        arguments = {"path": path, old_key: old, new_key: new}
        return Ask(phrase.format(o=old, n=new, p=path), arguments, "ok", f"I changed {path}.")

    properties: dict[str, Json] = {key: {"type": "string"} for key in ("path", old_key, new_key)}
    return Family(
        rng.choice(("edit_file", "replace_text")), "Replace text in a file.", properties, tuple(properties), ask
    )


def add(rng: Random) -> Family:
    """Two integers in, a number out."""
    first, second = rng.choice((("a", "b"), ("x", "y"), ("first", "second")))
    verb = rng.choice(("Add", "Multiply"))

    def ask(rng: Random) -> Ask:
        a, b = number(rng, 999), number(rng, 999)
        phrase = (
            rng.choice(("Add {a} and {b}.", "What is {a} plus {b}?", "What is the sum of {a} and {b}?"))
            if verb == "Add"
            else rng.choice(("Multiply {a} and {b}.", "What is {a} times {b}?"))
        )
        value = a + b if verb == "Add" else a * b
        return Ask(phrase.format(a=a, b=b), {first: a, second: b}, str(value), f"The result is {value}.")

    name = rng.choice(("add", "add_numbers", "sum")) if verb == "Add" else rng.choice(("multiply", "multiply_numbers"))
    properties: dict[str, Json] = {first: {"type": "integer"}, second: {"type": "integer"}}
    return Family(name, f"{verb} two numbers.", properties, (first, second), ask)


def message(rng: Random) -> Family:
    """A name and a text in."""
    to_key, text_key = rng.choice(("to", "name", "recipient")), rng.choice(("text", "message", "body"))

    def ask(rng: Random) -> Ask:
        name, text = word(rng, words.NAMES), rng.choice(words.PHRASES)
        phrase = rng.choice(('Send "{t}" to {n}.', 'Tell {n} "{t}".', 'Send {n} the message "{t}".'))
        return Ask(phrase.format(t=text, n=name), {to_key: name, text_key: text}, "sent", f"I told {name}.")

    properties: dict[str, Json] = {to_key: {"type": "string"}, text_key: {"type": "string"}}
    name = rng.choice(("send_message", "message", "send_text"))
    return Family(name, "Send a message.", properties, (to_key, text_key), ask)


def timer(rng: Random) -> Family:
    """Minutes, and perhaps a label, in."""
    key, with_label = rng.choice(("minutes", "duration")), rng.random() < 0.5

    def ask(rng: Random) -> Ask:
        minutes = number(rng, 120)
        label = rng.choice(words.EVENTS) if with_label and rng.random() < 0.5 else None
        phrase = rng.choice(("Set a timer for {m} minutes{l}.", "Start a timer of {m} minutes{l}."))
        phrase = phrase.format(m=minutes, l=f" for the {label}" if label else "")
        return Ask(phrase, _keep(**{key: minutes, "label": label}), "started", f"The timer runs for {minutes} minutes.")

    label: dict[str, Json] = {"label": {"type": "string"}} if with_label else {}
    return Family(
        rng.choice(("set_timer", "start_timer")), "Start a timer.", {key: {"type": "integer"}} | label, (key,), ask
    )


def light(rng: Random) -> Family:
    """A room and a boolean in."""
    room_key, on_key = rng.choice(("room", "place")), rng.choice(("on", "state", "enabled"))

    def ask(rng: Random) -> Ask:
        room, on = rng.choice(words.ROOMS), rng.random() < 0.5
        phrase = rng.choice(("Turn {s} the light in the {r}.", "Switch {s} the {r} light.", "Turn the {r} light {s}."))
        state = "on" if on else "off"
        phrase = phrase.format(s=state, r=room)
        return Ask(phrase, {room_key: room, on_key: on}, "ok", f"The {room} light is {state}.")

    properties: dict[str, Json] = {room_key: {"type": "string"}, on_key: {"type": "boolean"}}
    return Family(
        rng.choice(("set_light", "switch_light")), "Turn a light on or off.", properties, (room_key, on_key), ask
    )


def invite(rng: Random) -> Family:
    """An event, a day and an array of guests in."""
    guests_key = rng.choice(("guests", "people", "names"))

    def ask(rng: Random) -> Ask:
        guests = [word(rng, words.NAMES, 0.2) for _ in range(rng.randint(2, 3))]
        event, day = rng.choice(words.EVENTS), rng.choice(words.DAYS)
        listed = ", ".join(guests[:-1]) + " and " + guests[-1]
        phrase = rng.choice(("Invite {g} to the {e} on {d}.", "Ask {g} to come to the {e} on {d}."))
        arguments: Json = {"event": event, "day": day, guests_key: guests}
        return Ask(phrase.format(g=listed, e=event, d=day), arguments, "ok", f"The {event} is on {day}.")

    properties: dict[str, Json] = {
        "event": {"type": "string"},
        "day": {"type": "string"},
        guests_key: {"type": "array", "items": {"type": "string"}},
    }
    name = rng.choice(("invite", "create_event", "plan_event"))
    return Family(name, "Invite people to an event.", properties, tuple(properties), ask)


def convert(rng: Random) -> Family:
    """A number and two units in, a number out."""
    amount_key = rng.choice(("amount", "value"))

    def ask(rng: Random) -> Ask:
        amount: float = number(rng, 999) if rng.random() < 0.5 else number(rng, 99) + rng.randint(1, 9) / 10
        source, goal = rng.sample(words.UNITS, 2)
        phrase = rng.choice(("Convert {a} {s} to {g}.", "How many {g} are {a} {s}?"))
        value = number(rng, 9999)
        arguments = {amount_key: amount, "from": source, "to": goal}
        answer = f"{amount} {source} are {value} {goal}."
        return Ask(phrase.format(a=amount, s=source, g=goal), arguments, json.dumps({"result": value}), answer)

    properties: dict[str, Json] = {
        amount_key: {"type": "number"},
        "from": {"type": "string"},
        "to": {"type": "string"},
    }
    name = rng.choice(("convert", "convert_units"))
    return Family(name, "Convert between units.", properties, tuple(properties), ask)


def search(rng: Random) -> Family:
    """A query, and perhaps a limit, in."""
    with_limit = rng.random() < 0.5

    def ask(rng: Random) -> Ask:
        query, found = word(rng, words.TOPICS), rng.choice(words.PHRASES)
        limit = number(rng, 50) if with_limit and rng.random() < 0.5 else None
        if limit is None:
            phrase = rng.choice(("Search for {q}.", "Find something about {q}.", "Look up {q}, please.")).format(
                q=query
            )
        else:
            phrase = rng.choice(("Find {n} pages about {q}.", "Search for {n} pages on {q}.")).format(n=limit, q=query)
        return Ask(phrase, _keep(query=query, limit=limit), found, f"I found: {found}")

    limit: dict[str, Json] = {"limit": {"type": "integer"}} if with_limit else {}
    name = rng.choice(("search", "web_search", "find_pages"))
    return Family(name, "Search for pages.", {"query": {"type": "string"}} | limit, ("query",), ask)


def settings(rng: Random) -> Family:
    """An object in."""
    key = rng.choice(("settings", "options", "config"))

    def ask(rng: Random) -> Ask:
        keys = rng.sample(("mode", "level", "color", "room", "debug", "speed"), rng.randint(1, 3))
        made: Json = {name: _value(rng) for name in keys}
        phrase = rng.choice(("Save the settings {o}.", "Store these settings: {o}", "Apply the settings {o}."))
        return Ask(phrase.format(o=json.dumps(made)), {key: made}, "saved", "The settings are saved.")

    name = rng.choice(("save_settings", "apply_settings"))
    return Family(name, "Save the settings.", {key: {"type": "object"}}, (key,), ask)


def list_files(rng: Random) -> Family:
    """Nothing in, a list of files out."""

    def ask(rng: Random) -> Ask:
        files = [words.path(rng) for _ in range(rng.randint(1, 3))]
        phrase = rng.choice(("List the files.", "Which files are there?", "Show all files, please."))
        return Ask(phrase, {}, "\n".join(files), "The files are:\n" + "\n".join(files))

    return Family(rng.choice(("list_files", "ls")), "List all files.", {}, (), ask)


def _value(rng: Random) -> str | int | bool:
    return rng.choice((rng.choice(words.MODES), rng.choice(words.COLORS), number(rng, 99), rng.random() < 0.5))


def _typed(rng: Random, kind: str) -> tuple[Any, str]:
    """A value of a JSON type, and how a user writes it."""
    if kind == "string":
        value: Any = rng.choice(
            (word(rng, words.CITIES), word(rng, words.NAMES), invented(rng), words.path(rng), rng.choice(words.COLORS))
        )
        return value, value
    if kind == "array":
        value = [rng.choice((invented(rng), rng.choice(words.THINGS))) for _ in range(rng.randint(1, 3))]
    elif kind == "object":
        value = {rng.choice(("mode", "level", "color", invented(rng))): _value(rng)}
    elif kind == "boolean":
        value = rng.random() < 0.5
    else:
        value = number(rng) if kind == "integer" else number(rng, 99) + rng.randint(1, 9) / 10
    return value, json.dumps(value)


def invented_tool(rng: Random) -> Family:
    """A tool that nobody has heard of, called by its name with named arguments of any type."""
    verbs = ("get", "set", "run", "make", "find", "check")
    name = invented(rng, 2) if rng.random() < 0.5 else f"{rng.choice(verbs)}_{invented(rng)}"
    known = ("size", "count", "color", "level", "target", "source", "label", "depth", "tags", "owner", "flag", "rate")
    keys = list(dict.fromkeys(word(rng, known, 0.5) for _ in range(rng.randint(0, 3))))
    kinds = {key: rng.choice(("string", "string", "integer", "number", "boolean", "array", "object")) for key in keys}
    style = rng.choice((("{k} {v}", " and "), ("{k} = {v}", ", "), ("{k} {v}", ", "), ("{k}: {v}", ", ")))

    def ask(rng: Random) -> Ask:
        typed = {key: _typed(rng, kind) for key, kind in kinds.items()}
        pairs = style[1].join(style[0].format(k=key, v=shown) for key, (_, shown) in typed.items())
        opener = rng.choice(("Call {n}", "Use {n}", "Run {n}", "Please call {n}")).format(n=name)
        value = rng.choice((str(number(rng)), invented(rng), rng.choice(words.COLORS)))
        arguments = {key: value for key, (value, _) in typed.items()}
        phrase = f"{opener} with {pairs}." if pairs else f"{opener}."
        return Ask(phrase, arguments, json.dumps({"result": value}), f"The result is {value}.")

    properties: dict[str, Json] = {key: {"type": kind} for key, kind in kinds.items()}
    return Family(name, f"The {invented(rng)} tool.", properties, tuple(keys), ask)


FAMILIES = (
    weather, read_file, write_file, edit_file, add, message, timer, light, invite, convert, search, settings,
    list_files,
)  # fmt: skip
