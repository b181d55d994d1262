"""A JSON schema as llguidance takes it inside a grammar: what it cannot hold to is refused by name, or dropped.

Schemas come from clients. Nothing here compiles; what is malformed beyond this is found when the grammar is.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.patterns import expression

UNSUPPORTED: frozenset[str] = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "uniqueItems",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
        "unevaluatedItems",
        "$dynamicRef",
        "$recursiveRef",
    }
)
"""Keywords that would narrow the values and that no grammar here expresses."""

TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})

_SPACING: Mapping[str, Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space is that of the chat template's own JSON: with none to choose, more of the text is forced."""

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LABELS = ("$schema", "$id", "id", "$anchor", "x-guidance")
_DEEPEST = 100
"""Levels of schemas within schemas; llguidance reads not many more."""


class SchemaError(ValueError):
    """A schema that no answer can be held to; the message names the keyword and says where."""


class UnsupportedKeyword(SchemaError):
    """A strict schema uses a keyword that cannot be enforced."""

    def __init__(self, keyword: str, where: str) -> None:
        super().__init__(f"the schema keyword '{keyword}' ({where or 'at the root'}) cannot be enforced")
        self.keyword = keyword


def json_rule(schema: object, root: object, *, strict: bool) -> str:
    """`%json {...}`: JSON text that is valid under `schema`, whose references point into `root`.

    Objects that list their properties and say nothing of others get no others.

    Raises:
        UnsupportedKeyword: it is strict and cannot be enforced.
        SchemaError: it is no schema, or is nested too deeply.
    """
    body = usable(schema, strict=strict)
    if schema is not root and _refers(body):
        body = _moved(body)
        body["$defs"] = {"root": _moved(usable(root, strict=strict))}
    body["x-guidance"] = {**_SPACING, "lenient": not strict}
    return f"%json {json.dumps(body)}"


def usable(schema: object, *, strict: bool) -> dict[str, Any]:
    """The schema without labels and, unless `strict`, without what cannot be enforced.

    Raises: as `json_rule` does.
    """
    merges = any("allOf" in part or ("$ref" in part and "properties" in part) for part, _ in _walk(schema, ""))
    return _cleaned(schema, "", strict, not merges)


def _walk(schema: object, where: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every schema within a schema, and where it stands.

    Raises:
        SchemaError: they are nested too deeply.
    """
    waiting = [(schema, where, 0)]
    while waiting:
        part, place, depth = waiting.pop()
        if depth > _DEEPEST:
            raise SchemaError(f"the schema is nested more than {_DEEPEST} levels deep")
        if not isinstance(part, Mapping):
            continue
        yield part, place
        waiting += [(inner, f"{place}.{step}".removeprefix("."), depth + 1) for step, inner in _inner(part)]


def _inner(part: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for word in _NAMED:
        named = part.get(word)
        yield from ((f"{word}.{name}", inner) for name, inner in named.items()) if isinstance(named, Mapping) else ()
    for word in _LISTED:
        listed = part.get(word)
        yield from ((f"{word}[{i}]", inner) for i, inner in enumerate(listed)) if isinstance(listed, list) else ()
    yield from ((word, part[word]) for word in _SINGLE if isinstance(part.get(word), Mapping))


def _cleaned(schema: object, where: str, strict: bool, closing: bool) -> dict[str, Any]:
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema must be an object ({where or 'at the root'})")
    check_keywords(schema, where, strict=strict)
    combined = any(word in schema for word in ("anyOf", "oneOf", "$ref"))
    kept = {key: value for key, value in schema.items() if not _dropped(key, value)}
    inner = closing and not (combined and "properties" in schema)

    def clean(part: object, step: str) -> object:
        # false is a schema too, and llguidance reads it in these places.
        return part if part is False else _cleaned(part, f"{where}.{step}".removeprefix("."), strict, inner)

    result = _mapped(kept, clean)
    if inner and isinstance(result.get("properties"), dict) and "patternProperties" not in result:
        result.setdefault("additionalProperties", False)
    return result


def check_keywords(schema: Mapping[str, Any], where: str, *, strict: bool) -> None:
    """Raises `UnsupportedKeyword` where a strict schema needs more than a grammar can do."""
    for key, value in schema.items() if strict else ():
        # uniqueItems: false and the like narrow nothing.
        if _dropped(key, value) and key not in _LABELS and value is not False:
            raise UnsupportedKeyword(key, where)
    told = schema.get("type")
    if strict and any(name not in TYPES for name in (told if isinstance(told, list) else [told]) if name is not None):
        raise SchemaError(f"{json.dumps(told)[:40]} is no type of JSON schema ({where or 'at the root'})")


def _dropped(key: str, value: object) -> bool:
    match key:
        case "pattern":
            return not isinstance(value, str) or expression(value) is None
        case "patternProperties":
            return isinstance(value, Mapping) and any(expression(pattern) is None for pattern in value)
    return key in UNSUPPORTED or key in _LABELS


def _mapped(schema: Mapping[str, Any], change: Callable[[object, str], object]) -> dict[str, Any]:
    """The schema with every schema directly in it changed."""
    result = dict(schema)
    for word in _NAMED:
        if isinstance(result.get(word), Mapping):
            result[word] = {name: change(inner, f"{word}.{name}") for name, inner in result[word].items()}
    for word in _LISTED:
        if isinstance(result.get(word), list):
            result[word] = [change(inner, f"{word}[{i}]") for i, inner in enumerate(result[word])]
    for word in _SINGLE:
        if isinstance(result.get(word), Mapping):
            result[word] = change(result[word], word)
    return result


def _refers(schema: object) -> bool:
    return any("$ref" in part for part, _ in _walk(schema, ""))


def _moved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its references pointing at where the root is kept now (RFC 6901 pointers)."""

    def move(part: object, _: str) -> object:
        return _moved(part) if isinstance(part, dict) else part

    result = _mapped(schema, move)
    ref = result.get("$ref")
    if isinstance(ref, str) and ref.startswith("#"):
        result["$ref"] = re.sub("^#", "#/$defs/root", ref)
    return result
