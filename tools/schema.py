"""What a tool declares: which types an argument may have, followed through every JSON schema keyword that tells.

Schemas come from clients: references may be cyclic or dangling, any part malformed. What tells nothing means "any".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

from tools.values import Kind

_NAMES: Mapping[str, frozenset[str]] = {
    # A number may be written as an integer, so that allOf of both means integer.
    "number": frozenset({"integer", "number"}),
    **{name: frozenset({name}) for name in ("string", "integer", "boolean", "null", "object", "array")},
}
_INDEX = re.compile("0|[1-9][0-9]{0,8}")
_DEEPEST = 64
"""Levels of nested combinators that are followed; what lies deeper means "any"."""


@dataclass(frozen=True)
class Tool:
    """One declared function: its name and the JSON schema of its arguments (whatever the client sent)."""

    name: str
    parameters: object = None

    @cached_property
    def properties(self) -> Mapping[str, object]:
        """The schema of every declared argument, also those declared through `$ref`, `allOf`, `anyOf` and `oneOf`."""
        found: dict[str, list[object]] = {}
        for part in _parts(self.parameters):
            declared = part.get("properties")
            for key, schema in declared.items() if isinstance(declared, Mapping) else ():
                found.setdefault(key, []).append(schema)
        return {key: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for key, schemas in found.items()}

    @cached_property
    def longest_key(self) -> int:
        """The length of the longest declared key; 0 without any."""
        return max(map(len, self.properties), default=0)

    @cached_property
    def required(self) -> frozenset[str]:
        """The arguments without which a call says too little; those of one branch of a union do not count."""
        found: set[str] = set()
        for part in _parts(self.parameters, through=("allOf",)):
            names = part.get("required")
            found.update(name for name in (names if isinstance(names, list) else ()) if isinstance(name, str))
        return frozenset(found)

    def kind(self, key: str) -> Kind:
        """How the bare text of argument `key` is read; an undeclared key falls to `additionalProperties`."""
        if key not in self.properties:
            return self._extra
        if key not in self._kinds:
            self._kinds[key] = _Reading(self.parameters).kind(self.properties[key])
        return self._kinds[key]

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        return {}

    @cached_property
    def _extra(self) -> Kind:
        extra = [part["additionalProperties"] for part in _parts(self.parameters) if "additionalProperties" in part]
        return _Reading(self.parameters).kind(extra[0]) if len(extra) == 1 else Kind()


def declared(tools: Iterable[object]) -> dict[str, Tool]:
    """The function tools of a request by name, in the nested (chat) or flat (Responses) shape; others are left out."""
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        inner = tool.get("function")
        shape = inner if isinstance(inner, Mapping) else tool
        name = shape.get("name")
        if isinstance(name, str) and name.strip():
            found.setdefault(name.strip(), Tool(name.strip(), shape.get("parameters")))
    return found


def _parts(root: object, through: tuple[str, ...] = ("allOf", "anyOf", "oneOf")) -> list[Mapping[str, object]]:
    """The root schema and all it is combined from, each once."""
    found: list[Mapping[str, object]] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        found.append(schema)
        branches = [branch for word in through for branch in _list(schema.get(word))]
        waiting.extend(reversed([target(root, schema.get("$ref")), *branches]))
    return found


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def target(root: object, ref: object) -> object:
    """What a local JSON pointer (RFC 6901) such as `#/$defs/Place` points at; None where it points nowhere."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    at = root
    for step in unquote(ref[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping):
            at = at.get(name)
        elif isinstance(at, list) and _INDEX.fullmatch(name) and int(name) < len(at):
            at = at[int(name)]
        else:
            return None
    return at


@dataclass
class _Reading:
    """One walk over a schema. A schema met again is taken from memory; met inside itself it tells nothing new."""

    root: object
    types: dict[int, frozenset[str] | None] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def kind(self, schema: object) -> Kind:
        return Kind(self._types(schema), self._members(schema, set()))

    def _types(self, schema: object) -> frozenset[str] | None:
        """The JSON types the schema allows; None for any."""
        if not isinstance(schema, Mapping) or id(schema) in self.open or len(self.open) >= _DEEPEST:
            return None
        if id(schema) not in self.types:
            self.open.add(id(schema))
            self.types[id(schema)] = _both(self._told(schema))
            self.open.discard(id(schema))
        found = self.types[id(schema)]
        return found | {"null"} if found is not None and schema.get("nullable") is True else found

    def _told(self, schema: Mapping[str, object]) -> Iterable[frozenset[str] | None]:
        """What each keyword allows; a value must satisfy them all."""
        if "type" in schema:
            yield _named(schema["type"])
        values = _values(schema)
        if values is not None and "type" not in schema:
            yield frozenset[str]().union(*(_NAMES[type_of(value)] for value in values))
        if "$ref" in schema:
            yield self._types(target(self.root, schema["$ref"]))
        for word in ("anyOf", "oneOf"):
            branches = _list(schema.get(word))
            if branches:
                yield _either([self._types(branch) for branch in branches if not self._inside(branch)])
        yield from (self._types(branch) for branch in _list(schema.get("allOf")))

    def _inside(self, branch: object) -> bool:
        """Whether a branch only leads back to a schema being read: then the other branches decide."""
        if not isinstance(branch, Mapping):
            return False
        return id(branch) in self.open or id(target(self.root, branch.get("$ref"))) in self.open

    def _members(self, schema: object, seen: set[int]) -> tuple[object, ...] | None:
        """The only values allowed (`enum`, `const`), where the schema lists them; None otherwise."""
        if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) >= _DEEPEST:
            return None
        values = _values(schema)
        if values is not None:
            return values
        seen.add(id(schema))
        for branch in (target(self.root, schema.get("$ref")), *_list(schema.get("allOf"))):
            members = self._members(branch, seen)
            if members is not None:
                return members
        branches = [*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
        listed = [_values(branch) for branch in branches if isinstance(branch, Mapping)]
        if not branches or len(listed) < len(branches) or any(values is None for values in listed):
            return None
        return tuple(value for values in listed for value in values or ())


def _values(schema: Mapping[str, object]) -> tuple[object, ...] | None:
    if "const" in schema:
        return (schema["const"],)
    values = schema.get("enum")
    return tuple(values) if isinstance(values, list) and values else None


def type_of(value: object) -> str:
    """What JSON schema calls the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def _named(word: object) -> frozenset[str] | None:
    """The types a `type` keyword names (a name or a list of names); None where a name is unknown."""
    words = word if isinstance(word, list) and word else [word]
    return _either([_NAMES.get(name.lower()) if isinstance(name, str) else None for name in words])


def _either(choices: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    known = [choice for choice in choices if choice is not None]
    return frozenset[str]().union(*known) if known and len(known) == len(choices) else None


def _both(claims: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """What satisfies every claim. Claims that contradict each other tell nothing."""
    found: frozenset[str] | None = None
    for claim in claims:
        found = claim if found is None else found if claim is None else found & claim
    return found or None
