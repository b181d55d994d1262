"""The rule of one argument's value: text as it is where the schema says string, JSON by the schema everywhere else.

What a rule lets through, the reader reads back (`tools.values`) as a value of the schema.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.json_rules import SchemaError, UnsupportedKeyword, check_keywords, json_rule
from tools.patterns import FORMATS, expression, slashed
from tools.schema import Tool, target, type_of
from tools.tags import Sign

ANY_TEXT = "(?s:.*)"
_NO_JSON = r"(?:\s*[^\s{\[](?s:.*)|\s*)"
"""Text that the reader takes for a string although an object or an array would be allowed."""

_BOUNDS = frozenset({"pattern", "format", "minLength", "maxLength"})
_MOST_BRANCHES = 64
_COMBINED = ("anyOf", "oneOf", "$ref", "allOf")
_NOTES = ("title", "description", "default", "examples", "$comment", "deprecated", "$defs", "definitions")


def value_rules(name: str, tool: Tool, key: str, schema: object, *, strict: bool) -> list[str]:
    """The Lark rules of the value of `key`, up to and with `</arg_value>`; the first one is called `name`.

    Raises:
        UnsupportedKeyword: it is strict, and holds what cannot be enforced.
        SchemaError: it is no schema.
    """
    kind = tool.kind(key)
    if kind.members is not None:
        allowed = [m for m in kind.members if kind.types is None or type_of(m) in kind.types]
        return [f"{name}: ({' | '.join(literals(allowed, key))}) {literal(Sign.VALUE_END)}"]
    if kind.types is not None and "string" not in kind.types:
        rule = json_rule(schema, tool.parameters, strict=strict)
        return [f"{name}: {name}_json {literal(Sign.VALUE_END)}", f"{name}_json: {rule}"]
    return _text_or_json(name, _branches(schema, tool.parameters), tool, key, strict=strict)


def literals(values: Sequence[object], key: str) -> list[str]:
    """What the model writes for each of these values: strings bare, all else as JSON.

    Raises:
        SchemaError: none of them can be written.
    """
    shown = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    told = [literal(text) for text in dict.fromkeys(shown) if Sign.VALUE_END not in text]
    if not told:
        raise SchemaError(f"no value of '{key}' satisfies its schema")
    return told


def literal(text: str) -> str:
    """A text as a Lark grammar quotes it."""
    return json.dumps(text, ensure_ascii=False)


def any_text_rules() -> list[str]:
    """The rule `text`: any text, up to and with the first `</arg_value>`.

    It is what `text_rule` makes of any text, in lexemes from one `<` to the next: that halves what masks cost.
    """
    begun = [Sign.VALUE_END[:length] for length in range(1, len(Sign.VALUE_END))]
    parted = [f"{start}[^<{Sign.VALUE_END[len(start)]}]" for start in begun]
    return [
        f"text: (PLAIN | NEARLY)* {literal(Sign.VALUE_END)}",
        f"PLAIN: {slashed('[^<]+')}",
        f"NEARLY: {slashed('|'.join([*begun, *parted]))}",
    ]


def text_rule(name: str, regex: str) -> str:
    """Text that matches, and ends at the first `</arg_value>`."""
    return f"{name}[suffix={literal(Sign.VALUE_END)}]: {slashed(regex)}"


def _text_or_json(name: str, branches: Sequence[object], tool: Tool, key: str, *, strict: bool) -> list[str]:
    """A union with a string in it, by what the reader makes of each branch."""
    strings = [part for part in branches if _says(part, "string")]
    nested = [part for part in branches if _nests(part)]
    plain = _NO_JSON if nested else ANY_TEXT
    ways, rules = [], []
    for place, part in enumerate(strings or [{}]):
        ways.append(f"{name}_text{place}")
        rules.append(_bounded(ways[-1], part, plain, f"properties.{key}", strict=strict))
    for place, part in enumerate(nested if strings else ()):
        ways.append(f"{name}_json{place} {literal(Sign.VALUE_END)}")
        rules.append(f"{name}_json{place}: {json_rule(part, tool.parameters, strict=strict)}")
    if any(_says(part, "null") for part in branches):
        ways.append(f"{literal('null')} {literal(Sign.VALUE_END)}")
    return [f"{name}: {' | '.join(ways)}", *rules]


def _bounded(name: str, part: object, plain: str, where: str, *, strict: bool) -> str:
    """Text that is no JSON where some would be read, within what a string's schema asks for."""
    if not isinstance(part, Mapping):
        return f"{name}: text" if plain == ANY_TEXT else text_rule(name, plain)
    check_keywords(part, where, strict=strict)
    if "enum" in part or "const" in part:
        values = part["enum"] if isinstance(part.get("enum"), list) else [part.get("const")]
        told = literals([value for value in values if isinstance(value, str)], where)
        return f"{name}: ({' | '.join(told)}) {literal(Sign.VALUE_END)}"
    regexes = [regex for word in _BOUNDS & part.keys() if (regex := _bound(word, part, where, strict)) is not None]
    regexes = sorted(set(regexes)) + ([plain] if plain != ANY_TEXT else [])
    if not regexes:
        return f"{name}: text"
    if len(regexes) == 1:
        return text_rule(name, regexes[0])
    term = name.upper()
    both = " & ".join(slashed(regex) for regex in regexes)
    return f"{name}[suffix={literal(Sign.VALUE_END)}]: {term}\n{term}: {both}"


def _bound(word: str, part: Mapping[str, Any], where: str, strict: bool) -> str | None:
    """The regular expression of one bound; None where it cannot be held to."""
    match word, part[word]:
        case "pattern", str(pattern):
            return expression(pattern)
        case "format", str(form) if form in FORMATS:
            return FORMATS[form]
        case "format", _ if strict:
            raise UnsupportedKeyword("format", where)
        case (("minLength" | "maxLength"), _):
            least, most = _length(part, "minLength", 0), _length(part, "maxLength", None)
            if least is not None and most is not None and least > most:
                raise SchemaError(f"minLength is greater than maxLength ({where})")
            return f"(?s:.{{{least or 0},{'' if most is None else most}}})"
    return None


def _length(part: Mapping[str, Any], word: str, default: int | None) -> int | None:
    value = part.get(word, default)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _branches(schema: object, root: object) -> list[object]:
    """The schemas of a union, through references, `anyOf`, `oneOf` and lists of types; one alone is its own.

    Raises:
        SchemaError: there are too many of them.
    """
    found: list[object] = []
    waiting: list[tuple[object, frozenset[int]]] = [(schema, frozenset())]
    while waiting:
        part, above = waiting.pop()
        if not isinstance(part, Mapping):
            found.append({})
            continue
        inner = _alternatives(part, root)
        # What leads back to a schema being read says nothing new.
        waiting += [(branch, above | {id(part)}) for branch in reversed(inner or ()) if id(branch) not in above]
        found += [part] if inner is None else []
        if len(found) + len(waiting) > _MOST_BRANCHES or len(above) > _MOST_BRANCHES:
            raise SchemaError(f"a union has more than {_MOST_BRANCHES} branches")
    return found


def _alternatives(part: Mapping[str, Any], root: object) -> Sequence[object] | None:
    """What a schema is one of; None for one that stands for itself."""
    said = {key: value for key, value in part.items() if key not in (*_COMBINED, *_NOTES)}
    union = next((part[word] for word in ("anyOf", "oneOf") if isinstance(part.get(word), list)), None)
    whole = part.get("allOf")
    if union is None and isinstance(part.get("$ref"), str):
        union = [target(root, part["$ref"])]
    elif union is None and isinstance(whole, list) and len(whole) == 1:
        union = whole
    if union is not None:
        return [{**said, **branch} if said and isinstance(branch, Mapping) else branch for branch in union]
    return [{**part, "type": name} for name in part["type"]] if isinstance(part.get("type"), list) else None


def _says(part: object, name: str) -> bool:
    """Whether a branch is of this type by name, or, for strings, of any."""
    said = part.get("type") if isinstance(part, Mapping) else None
    return said == name or (name == "string" and said is None and not _nests(part))


def _nests(part: object) -> bool:
    words = ("properties", "items", "additionalProperties", "prefixItems")
    if not isinstance(part, Mapping):
        return False
    return part.get("type") in ("object", "array") or ("type" not in part and any(word in part for word in words))
