"""What a turn may be, as grammar text for llguidance: JSON by a schema, or calls in Laguna's dialect.

Arguments come in the order of the schema, none twice; line breaks of the dialect's longer spelling are allowed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.argument_rules import ANY_TEXT, any_text_rules, literal, value_rules
from tools.json_rules import SchemaError, UnsupportedKeyword, json_rule, usable
from tools.patterns import slashed
from tools.schema import Tool, declared
from tools.tags import Sign

__all__ = ["AnyJson", "Calls", "JsonAnswer", "SchemaError", "UnsupportedKeyword", "grammar"]

_NL = '"\\n"?'
_OPEN_KEY, _CLOSE_KEY, _OPEN_VALUE = literal(Sign.KEY), literal(Sign.KEY_END), literal(Sign.VALUE)
_KEY_NAME = "[^<>\\s](?:[^<>\\n]{0,62}[^<>\\s])?"
_LONGEST = 1 << 19
"""Characters of grammar text: compiling may take seconds for more."""
_MOST_SHAPES = 16


@dataclass(frozen=True)
class JsonAnswer:
    """The answer is JSON text, valid under a schema."""

    schema: Mapping[str, Any]
    strict: bool = False


AnyJson = JsonAnswer({"type": "object"})
"""The answer is any JSON object."""


@dataclass(frozen=True)
class Calls:
    """Which calls there may be. `tools` are OpenAI's tool objects."""

    tools: Sequence[Mapping[str, Any]]
    required: bool = False
    """At least one call, and nothing beside; otherwise text with calls in it."""
    strict: frozenset[str] = frozenset()
    """Tools whose arguments are held to their whole schema, or refused."""
    parallel: bool = True
    """More than one call."""


@dataclass(frozen=True)
class _Shape:
    """One way to fill in a tool's arguments: the schemas by key, and which keys there must be."""

    tool: Tool
    """The tool as if this were the only way."""
    properties: Mapping[str, object]
    required: frozenset[str]
    extra: object = False
    """The schema of arguments under other keys; False where there are none."""


def grammar(*, thinking: bool, answer: JsonAnswer | None = None, calls: Calls | None = None) -> str:
    """The Lark text of a turn; `thinking`: the prompt ended inside `<think>`, and nothing is asked of what is thought.

    With an `answer` and calls that are not required, the turn is either. `<tool_call>` and its like are special tokens.

    Raises:
        UnsupportedKeyword: a strict schema uses what cannot be enforced.
        SchemaError: a schema is none, or they are too large together.
    """
    # Some templates write a line break after the thinking: it may stand before calls, where no text shows it.
    turn, rules = _turn(answer, calls, before_calls=_NL if thinking else "")
    opened = "thought turn" if thinking else "turn"
    head = ["%llguidance {}", f"start: {opened}", f"turn: {turn}", f"anything: {slashed(ANY_TEXT)}"]
    head += [f"thought: anything {Sign.THINK_END}"] if thinking else []
    text = "\n".join([*head, *any_text_rules(), *rules]) + "\n"
    if len(text) > _LONGEST:
        raise SchemaError("the schemas of this request are too large together")
    return text


def _turn(answer: JsonAnswer | None, calls: Calls | None, *, before_calls: str) -> tuple[str, list[str]]:
    rules = list(_call_rules(calls)) if calls else []
    some = f"{before_calls} call {_NL}" + (f" (call {_NL})*" if calls and calls.parallel else "")
    if calls and calls.required:
        return some, rules
    if answer is not None:
        rule = json_rule(answer.schema, answer.schema, strict=answer.strict)
        rules = [*rules, f"json: {rule}"]
        return (f"json | {some}" if calls else "json"), rules
    return "anything (call anything)*" if calls and calls.parallel else "anything (call anything)?", rules


def _call_rules(calls: Calls) -> Iterator[str]:
    """The rule `call` and the rules of each tool."""
    tools = declared(calls.tools)
    yield f"call: {Sign.CALL} ({' | '.join(f't{i}' for i in range(len(tools)))}) {Sign.CALL_END}"
    for i, (name, tool) in enumerate(tools.items()):
        if calls.required or name in calls.strict:
            yield from _tool_rules(f"t{i}", tool, strict=name in calls.strict)
        else:
            yield f"t{i}: {literal(name)} {_NL} ({_OPEN_KEY} anything)?"


def _tool_rules(rule: str, tool: Tool, *, strict: bool) -> Iterator[str]:
    shapes = _shapes(tool, strict=strict)
    yield f"{rule}: {literal(tool.name)} {_NL} ({' | '.join(f'{rule}s{i}' for i in range(len(shapes)))})"
    for i, shape in enumerate(shapes):
        yield from _shape_rules(f"{rule}s{i}", shape, strict=strict)


def _shape_rules(rule: str, shape: _Shape, *, strict: bool) -> Iterator[str]:
    pairs = []
    for i, (key, schema) in enumerate(shape.properties.items()):
        if schema is False or not _writable(key):
            if key in shape.required:
                raise SchemaError(f"the required argument '{key}' cannot be written")
            continue
        own = f"{rule}a{i}"
        pairs.append(f"({own} {_NL})" + ("" if key in shape.required else "?"))
        yield f"{own}: {_OPEN_KEY} {literal(key)} {_CLOSE_KEY} {_NL} {_OPEN_VALUE} {own}v"
        yield from value_rules(f"{own}v", shape.tool, key, {} if schema is True else schema, strict=strict)
    if shape.extra is not False:
        pairs.append(f"({rule}x {_NL})*")
        yield from _extra_rules(f"{rule}x", shape, strict=strict)
    yield f"{rule}: {' '.join(pairs) or literal('')}"


def _extra_rules(rule: str, shape: _Shape, *, strict: bool) -> Iterator[str]:
    """Arguments under keys that the schema does not name."""
    named = " & ".join([slashed(_KEY_NAME), *(f"~{literal(key)}" for key in shape.properties)])
    yield f"{rule.upper()}: {named}"
    yield f"{rule}: {_OPEN_KEY} {rule.upper()} {_CLOSE_KEY} {_NL} {_OPEN_VALUE} {rule}v"
    yield from value_rules(f"{rule}v", shape.tool, "\n", shape.extra, strict=strict)


def _writable(key: str) -> bool:
    """Whether the reader would read this key back."""
    return key == key.strip() != "" and "<arg_" not in key and "</arg_" not in key


def _shapes(tool: Tool, *, strict: bool) -> list[_Shape]:
    """The ways to fill in the arguments: one, or one for each branch of a union at the root."""
    root = tool.parameters
    if not isinstance(root, Mapping):
        return [_Shape(Tool(tool.name), {}, frozenset())]
    if strict:
        _check_root(root)
    word = next((word for word in ("anyOf", "oneOf") if isinstance(root.get(word), list)), None)
    branches = root[word] if word is not None else ()
    if word is None or not 0 < len(branches) <= _MOST_SHAPES:
        return [_shape(tool.name, root)]
    rest = {key: value for key, value in root.items() if key != word}
    whole = rest.get("allOf")
    others = whole if isinstance(whole, list) else []
    return [_shape(tool.name, {**rest, "allOf": [*others, branch]}) for branch in branches]


def _shape(name: str, root: Mapping[str, Any]) -> _Shape:
    tool = Tool(name, root)
    extra = root.get("additionalProperties", {})
    unnamed = {} if extra is True or not isinstance(extra, Mapping | bool) else extra
    properties = {**tool.properties, **dict.fromkeys(sorted(tool.required - tool.properties.keys()), unnamed)}
    return _Shape(tool, properties, tool.required, unnamed if "additionalProperties" in root else False)


def _check_root(root: Mapping[str, Any]) -> None:
    """Raises `SchemaError` where the arguments as a whole are held to more than keys and their values."""
    usable(root, strict=True)
    for word in ("anyOf", "oneOf", "minProperties", "maxProperties", "enum", "const"):
        if word in root:
            raise UnsupportedKeyword(word, "")
    if root.get("type", "object") != "object":
        raise SchemaError("the arguments of a strict tool must be an object")
