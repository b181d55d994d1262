"""The messages of a request as blocks, and whether they make a conversation."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, field_validator
from pydantic_core import PydanticCustomError

from server.api.sealing import opened
from server.api.wire import Array, Wire, quoted
from server.errors import InvalidValue, MissingParameter

BILLING = "x-anthropic-billing-header:"
"""What begins a block of Claude Code's system prompt that is new in each request, and means nothing to a model."""

KINDS: Mapping[str, frozenset[str]] = {
    "user": frozenset({"text", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
    "system": frozenset({"text"}),
}
"""Kinds of block that a role may say; a text model can be shown no other."""

_ALL_KINDS = frozenset().union(*KINDS.values())


def _as_blocks(content: object) -> object:
    match content:
        case str():
            return [{"type": "text", "text": content}]
        case None | list():
            return content
    raise PydanticCustomError("content_type", "expected a string or an array of content blocks")


def _showable(kind: str, kinds: frozenset[str]) -> str:
    if kind not in kinds:
        told = "content blocks of type '{kind}' cannot be shown to this model"
        raise PydanticCustomError("block_kind", told, {"kind": quoted(kind)})
    return kind


class Shown(Wire):
    """A block of text, as a system prompt or a tool's result has it."""

    type: str
    text: str

    @field_validator("type")
    @classmethod
    def _is_text(cls, kind: str) -> str:
        return _showable(kind, frozenset({"text"}))


Texts = Annotated[Array[Shown] | None, BeforeValidator(_as_blocks, json_schema_input_type=str | list[Shown] | None)]


class Block(Wire):
    """One block of a message's content; whatever else clients put into it is not looked at."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: Texts = None
    is_error: bool | None = None

    @field_validator("type")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        return _showable(kind, _ALL_KINDS)


class Message(Wire):
    """One message of any role."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[Array[Block], BeforeValidator(_as_blocks, json_schema_input_type=str | list[Block])]


def system_text(system: Sequence[Shown] | None) -> str | None:
    """The system prompt, without what Claude Code changes in it from request to request; None where there is none.

    Its blocks are prompts of their own: where no white space parts two of them, a line break does.
    """
    kept = [block.text for block in system or () if not block.text.startswith(BILLING)]
    return reduce(_parted, kept) if kept else None


def _parted(before: str, after: str) -> str:
    glued = before and after and not before[-1].isspace() and not after[0].isspace()
    return f"{before}\n{after}" if glued else before + after


def conversation(system: Sequence[Shown] | None, messages: Sequence[Message]) -> tuple[dict[str, Any], ...]:
    """The messages as a chat template's reader takes them: role, text, calls and reasoning, nothing else.

    Raises:
        MissingParameter: a block lacks what its kind is made of.
        InvalidValue: a block of another role, a tool's result without its use, a use without its result, or an end
            that is to be continued.
    """
    for index, message in enumerate(messages):
        _check_blocks(message, f"messages[{index}]")
    _check_pairs(messages)
    if messages[-1].role == "assistant":
        told = "This model does not support assistant message prefill. The conversation must end with a user message."
        raise InvalidValue(f"Invalid value for 'messages': {told}", param="messages")
    text = system_text(system)
    first = [] if text is None else [{"role": "system", "content": text}]
    return (*first, *(plain for message in messages for plain in _plain(message)))


def _plain(message: Message) -> Iterator[dict[str, Any]]:
    text = "".join(block.text or "" for block in message.content)
    match message.role:
        case "assistant":
            yield _assistant(message, text)
        case "user":
            results = [block for block in message.content if block.type == "tool_result"]
            for block in results:
                yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": _result(block)}
            if len(results) < len(message.content) or not results:
                yield {"role": "user", "content": text}
        case "system":
            yield {"role": "system", "content": text}


def _assistant(message: Message, text: str) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": "assistant", "content": text}
    thought = "".join(block.thinking or opened(block.signature or "") for block in message.content)
    if thought:
        plain["reasoning_content"] = thought
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.input}}
        for block in message.content
        if block.type == "tool_use"
    ]
    return plain | ({"tool_calls": calls} if calls else {})


def _result(block: Block) -> str:
    text = "".join(part.text for part in block.content or ())
    # Laguna's template has no place for the flag, so the text says it.
    return f"Error: {text}" if block.is_error and "error" not in text[:40].lower() else text


_MADE_OF: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking",),
    "redacted_thinking": (),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
}


def _check_blocks(message: Message, place: str) -> None:
    for index, block in enumerate(message.content):
        path = f"{place}.content[{index}]"
        if block.type not in KINDS[message.role]:
            told = f"a message of role '{message.role}' cannot hold '{block.type}' blocks"
            raise InvalidValue(f"Invalid value for '{path}.type': {told}.", param=f"{path}.type")
        present = block.model_dump(exclude_none=True, include=set(_MADE_OF[block.type]))
        for name in _MADE_OF[block.type]:
            if name not in present:
                raise MissingParameter(f"Missing required parameter: '{path}.{name}'.", param=f"{path}.{name}")
            if present[name] == "" and name in ("id", "name", "tool_use_id"):
                raise InvalidValue(f"Invalid value for '{path}.{name}': it is empty.", param=f"{path}.{name}")


def _check_pairs(messages: Sequence[Message]) -> None:
    """Laguna shows results without ids, in the order of the calls: one too few or too many changes their meaning."""
    asked: dict[str, str] = {}
    unanswered: dict[str, str] = {}
    before = "user"
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "assistant" and before == "user":
            _check_answered(unanswered)
            asked, unanswered = {}, {}
        before = message.role
        for number, block in enumerate(message.content):
            place = f"messages[{index}].content[{number}]"
            if block.type == "tool_use" and block.id is not None:
                _check_new(block.id, asked, place)
                asked[block.id] = unanswered[block.id] = place
            if block.type == "tool_result" and block.tool_use_id is not None:
                _check_result(block.tool_use_id, asked, unanswered, place)
                del unanswered[block.tool_use_id]
    _check_answered(unanswered)


def _check_new(id_: str, asked: Mapping[str, str], place: str) -> None:
    if id_ in asked:
        raise InvalidValue(f"'{place}.id': `tool_use` ids must be unique.", param=f"{place}.id")


def _check_result(id_: str, asked: Mapping[str, str], unanswered: Mapping[str, str], place: str) -> None:
    if id_ not in asked:
        told = (
            f"'{place}': unexpected `tool_use_id` found in `tool_result` blocks: {id_[:100]}. Each `tool_result` block "
            "must have a corresponding `tool_use` block in the previous message."
        )
        raise InvalidValue(told, param=f"{place}.tool_use_id")
    if id_ not in unanswered:
        told = f"'{place}': each `tool_use` must have a single result. Found several with id: {id_[:100]}."
        raise InvalidValue(told, param=f"{place}.tool_use_id")


def _check_answered(unanswered: Mapping[str, str]) -> None:
    if not unanswered:
        return
    ids = ", ".join(id_[:100] for id_ in list(unanswered)[:5])
    place = next(iter(unanswered.values()))
    raise InvalidValue(
        f"'{place}': `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
        param=place,
    )
