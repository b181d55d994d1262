"""OpenAI-shaped messages, made into the ones a chat template can read.

A template takes strings and mappings and skips what it does not know, so whatever it would drop or trip over is
settled here: flattened, parsed, put in order, or refused with its path.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""Roles that may come in, and what the template is told. A template skips any other role without a word."""

RAW_ARGUMENTS = "arguments"
"""The one argument under which a past call's arguments are shown when they are not a JSON object."""


class TemplateError(ValueError):
    """The chat template cannot render this conversation."""


class MessageError(TemplateError):
    """A message has a shape that cannot be rendered; `path` says where, such as `messages[2].content[0]`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


def for_template(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Plain messages for the template, in the order in which it must show them.

    Content parts are joined as they stand, `developer` becomes `system`, past reasoning (the first of
    `reasoning_content` and `reasoning` that is not empty) is given under both names, `arguments` are parsed, tool
    results are put in the order of their calls, and keys that no template reads are left out.

    Raises:
        MessageError: a role, a content part or a tool call that would be lost or would break the template.
    """
    plain = [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    return _in_call_order(plain)


def _message(message: Mapping[str, Any], path: str) -> dict[str, Any]:
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise MessageError(f"{path}.role", f"{role!r} is not one of {', '.join(ROLES)}")
    plain: dict[str, Any] = {"role": ROLES[role], "content": _text(message.get("content"), f"{path}.content")}
    if role == "tool":
        plain["tool_call_id"] = message.get("tool_call_id")
    if role == "assistant":
        plain |= _reasoning(message, path)
        calls = _calls(message.get("tool_calls"), f"{path}.tool_calls")
        if calls:
            plain["tool_calls"] = calls
    return plain


def _text(content: object, path: str) -> str:
    """Content as one string: None is empty, text and refusal parts are joined with nothing between them."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list() | tuple():
            return "".join(_part(part, f"{path}[{index}]") for index, part in enumerate(content))
    raise MessageError(path, f"expected a string, a list of parts or null, not {type(content).__name__}")


def _part(part: object, path: str) -> str:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind)} if kind not in ("text", "refusal"):
            raise MessageError(path, f"a part of type {kind!r} cannot be shown to a text model, only text can")
    raise MessageError(path, 'expected a text part such as {"type": "text", "text": "..."}')


def _reasoning(message: Mapping[str, Any], path: str) -> dict[str, str]:
    """Templates differ in which of the two names they read first, and a client may fill either one."""
    for name in ("reasoning_content", "reasoning"):
        text = _text(message.get(name), f"{path}.{name}")
        if text:
            return {"reasoning_content": text, "reasoning": text}
    return {}


def _calls(calls: object, path: str) -> list[dict[str, Any]]:
    match calls:
        case None:
            return []
        case list() | tuple():
            return [_call(call, f"{path}[{index}]") for index, call in enumerate(calls)]
    raise MessageError(path, f"expected a list of tool calls, not {type(calls).__name__}")


def _call(call: object, path: str) -> dict[str, Any]:
    match call:
        case {"function": {"name": str(name), **function}, **rest} if name:
            arguments = _arguments(function.get("arguments"))
            return {
                "id": rest.get("id"),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
    raise MessageError(path, 'expected a call such as {"id": ..., "function": {"name": ..., "arguments": "{...}"}}')


def _arguments(arguments: object) -> Mapping[str, Any]:
    """The mapping that the template walks through.

    Nothing at all, blank text and `null` mean no arguments. Text that is not a JSON object (a call cut short, which
    agents do send back) is shown whole as one argument: the model sees what it wrote, and the turn goes on.
    """
    match arguments:
        case None:
            return {}
        case Mapping():
            return arguments
        case str():
            value = _parsed(arguments)
            return value if isinstance(value, dict) else {RAW_ARGUMENTS: arguments}
    return {RAW_ARGUMENTS: arguments}


def _parsed(text: str) -> object:
    """The JSON value of `text`, {} for none, and `text` itself when it is not JSON."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text
    return {} if value is None else value


def _finite(digits: str) -> float:
    value = float(digits)
    return _not_json(digits) if math.isinf(value) else value


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _in_call_order(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort each run of tool results by the calls it answers.

    The template shows results without their ids, so only their order ties them to the calls. Results whose id
    names no call of that turn keep their place.
    """
    ordered: list[dict[str, Any]] = []
    ranks: dict[str, int] = {}
    run: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            run.append(message)
            continue
        ordered += _sorted_run(run, ranks)
        run = []
        ranks = _ranks(message.get("tool_calls", ()))
        ordered.append(message)
    return ordered + _sorted_run(run, ranks)


def _ranks(calls: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, call in enumerate(calls):
        if isinstance(call["id"], str):
            ranks.setdefault(call["id"], rank)
    return ranks


def _sorted_run(run: Sequence[dict[str, Any]], ranks: Mapping[str, int]) -> list[dict[str, Any]]:
    places = [place for place, result in enumerate(run) if result["tool_call_id"] in ranks]
    placed = list(run)
    for place, origin in zip(places, sorted(places, key=lambda p: ranks[run[p]["tool_call_id"]]), strict=True):
        placed[place] = run[origin]
    return placed
