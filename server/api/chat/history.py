"""The messages of a request, and whether they make a conversation."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

from pydantic import Field

from server.api.parts import Text, text_of
from server.api.wire import Array, Wire
from server.errors import InvalidType, InvalidValue


class CalledFunction(Wire):
    """What an earlier call called; a client may send back arguments that are not JSON."""

    name: str = Field(min_length=1)
    arguments: str | dict[str, Any] | None = None


class Call(Wire):
    """A call of an earlier turn."""

    id: str | None = None
    type: Literal["function"] | None = None
    function: CalledFunction


class Message(Wire):
    """One message of any role."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text = None
    refusal: str | None = None
    reasoning_content: Text = None
    reasoning: Text = None
    tool_calls: Array[Call] | None = None
    function_call: CalledFunction | None = None
    tool_call_id: str | None = None

    @property
    def calls(self) -> list[Call]:
        """The calls of an assistant's turn, in either of the API's spellings."""
        legacy = [] if self.function_call is None else [Call(function=self.function_call)]
        return [*(self.tool_calls or ()), *legacy]


def conversation(messages: Sequence[Message]) -> tuple[dict[str, Any], ...]:
    """The messages as a chat template's reader takes them: role, text, calls and reasoning, nothing else.

    Raises:
        InvalidType: content is missing where a role needs it.
        InvalidValue: a tool result without a call before it, or a call without its result.
    """
    _check_pairs(messages)
    return tuple(_plain(message, f"messages[{index}]") for index, message in enumerate(messages))


def _plain(message: Message, place: str) -> dict[str, Any]:
    match message.role:
        case "system" | "developer" | "user":
            if message.content is None:
                raise InvalidType(
                    f"Invalid type for '{place}.content': expected a string or an array of text parts, but got null.",
                    param=f"{place}.content",
                )
            return {"role": message.role, "content": text_of(message.content)}
        case "tool" | "function":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text_of(message.content)}
        case "assistant":
            return _assistant(message)


def _assistant(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": "assistant", "content": text_of(message.content) or message.refusal or ""}
    reasoning = text_of(message.reasoning_content) or text_of(message.reasoning)
    if reasoning:
        plain["reasoning_content"] = reasoning
    if message.calls:
        plain["tool_calls"] = [_call(call) for call in message.calls]
    return plain


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": call.function.arguments},
    }


def _check_pairs(messages: Sequence[Message]) -> None:
    """Laguna shows results without ids, in the order of the calls: one too few or too many changes their meaning."""
    caller = 0
    unanswered: dict[str, None] = {}
    called: frozenset[str] | None = None
    for index, message in enumerate(messages):
        match message.role:
            case "tool" | "function":
                _check_result(message, called, f"messages[{index}]")
                if message.tool_call_id is not None:
                    unanswered.pop(message.tool_call_id, None)
            case "assistant":
                _check_answered(unanswered, caller)
                calls = message.calls
                unanswered = {call.id: None for call in calls if call.id is not None}
                caller, called = index, frozenset(unanswered) if calls else None
            case "user":
                _check_answered(unanswered, caller)
                called = None
    _check_answered(unanswered, caller)


def _check_result(message: Message, called: frozenset[str] | None, place: str) -> None:
    if called is None:
        raise InvalidValue(
            f"Invalid parameter: '{place}' has role '{message.role}' and must be a response to a preceding message "
            "with 'tool_calls'.",
            param=f"{place}.role",
        )
    if called and message.tool_call_id is not None and message.tool_call_id not in called:
        raise InvalidValue(
            f"Invalid parameter: '{place}.tool_call_id' names no call of the preceding 'tool_calls'.",
            param=f"{place}.tool_call_id",
        )


def _check_answered(unanswered: Collection[str], caller: int) -> None:
    if unanswered:
        raise InvalidValue(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. These have no response: {', '.join(unanswered)}.",
            param=f"messages[{caller}].tool_calls",
        )
