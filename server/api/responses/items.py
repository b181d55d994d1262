"""The items of a conversation: what a client may send, and the messages that they make."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from server.api.parts import Part, Text, text_of
from server.api.sealing import opened
from server.api.wire import Array, Wire, checked, quoted
from server.errors import InvalidValue


def _present(value: object) -> object:
    if value is None:
        raise PydanticCustomError("content_type", "expected a string or an array of text parts")
    return value


Said = Annotated[Text, BeforeValidator(_present, json_schema_input_type=str | list[Part])]


class Typed(Wire):
    """An item of any kind; without one it is a message."""

    type: str | None = None


class Message(Wire):
    """One message of any role."""

    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Said


class Call(Wire):
    """A call of an earlier turn; its arguments may be no JSON."""

    id: str | None = None
    call_id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    arguments: str
    status: str | None = None


class Output(Wire):
    """What a call came to."""

    id: str | None = None
    call_id: str = Field(min_length=1)
    output: Said


class ThoughtPart(Wire):
    """One part of a thought."""

    text: str


class Thought(Wire):
    """What was thought in an earlier turn: plainly, or in the field that clients pass on unread, or as a summary."""

    id: str | None = None
    content: Array[ThoughtPart] | None = None
    encrypted_content: str | None = None
    summary: Array[ThoughtPart] | None = None

    @property
    def text(self) -> str:
        """The most exact of the three."""
        plain, summary = ("".join(part.text for part in parts or ()) for parts in (self.content, self.summary))
        return plain or opened(self.encrypted_content or "") or summary


class Reference(Wire):
    """An item that the server keeps."""

    id: str


Item = Message | Call | Output | Thought
KINDS: Mapping[str, type[Message | Call | Output | Thought | Reference]] = {
    "message": Message,
    "function_call": Call,
    "function_call_output": Output,
    "reasoning": Thought,
    "item_reference": Reference,
}
"""What a text model that calls functions can be shown."""


def read(raw: dict[str, Any], place: str, find: Callable[[str], Item | None]) -> Item:
    """One item of the request; `find` looks up those that are kept.

    Raises:
        Refusal: it is of no kind that can be shown, or wrong, or kept no more; by its place.
    """
    kind = checked(Typed, raw, place).type or "message"
    if kind not in KINDS:
        told = f"items of type '{quoted(kind)}' cannot be shown to this model"
        raise InvalidValue(f"Invalid value for '{place}.type': {told}.", param=f"{place}.type")
    item = checked(KINDS[kind], raw, place)
    if not isinstance(item, Reference):
        return item
    found = find(item.id)
    if found is None:
        raise InvalidValue(f"Item with id '{item.id[:100]}' not found.", param=f"{place}.id")
    return found


def conversation(instructions: str | None, items: Sequence[Item]) -> tuple[dict[str, Any], ...]:
    """The items as a chat template's reader takes them: role, text, calls and reasoning, nothing else.

    Raises:
        InvalidValue: an output without its call, or a call without its output.
    """
    outputs = _outputs(items)
    # A call that was cut was never run, and its text is shown by the message after it.
    shown = [item for item in items if not _is_cut(item) or outputs.get(_id(item))]
    _check_pairs(shown)
    first = [] if instructions is None else [{"role": "system", "content": instructions}]
    return (*first, *(plain for turn in _turns(shown) for plain in _plain(turn, outputs)))


def _is_cut(item: Item) -> bool:
    return isinstance(item, Call) and item.status == "incomplete"


def _id(item: Item) -> str:
    return item.call_id if isinstance(item, Call | Output) else ""


def _outputs(items: Sequence[Item]) -> dict[str, deque[str]]:
    """The outputs of each call, by its id: a client that numbers calls anew in each turn has several of one id."""
    found: dict[str, deque[str]] = defaultdict(deque)
    for item in items:
        if isinstance(item, Output):
            found[item.call_id].append(text_of(item.output))
    return found


def _check_pairs(items: Sequence[Item]) -> None:
    """Laguna shows results without ids, in the order of the calls: one too few or too many changes their meaning."""
    unanswered: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Call):
            unanswered[item.call_id] += 1
        if isinstance(item, Output):
            if not unanswered[item.call_id]:
                told = f"No tool call found for function call output with call_id {item.call_id[:100]}."
                raise InvalidValue(told, param="input")
            unanswered[item.call_id] -= 1
    missing = next((id_ for id_, count in unanswered.items() if count), None)
    if missing is not None:
        raise InvalidValue(f"No tool output found for function call {missing[:100]}.", param="input")


def _turns(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Runs of items that are one message: an assistant's thought, text and calls, or anything else alone."""
    turn: list[Item] = []
    for item in items:
        if turn and not _continues(turn[-1], item):
            yield turn
            turn = []
        turn.append(item)
    if turn:
        yield turn


def _continues(last: Item, item: Item) -> bool:
    """Whether both are of one answer. It begins with what was thought, and its texts stand apart."""
    match last, item:
        case (Thought(), Thought()) | (Call(), Call()) | (Message(role="assistant"), Call()):
            return True
        case (Thought(), Message(role="assistant") | Call()) | (Call(), Message(role="assistant")):
            return True
    return False


def _plain(turn: Sequence[Item], outputs: Mapping[str, deque[str]]) -> Iterator[dict[str, Any]]:
    match turn[0]:
        case Message(role=role, content=content) if role != "assistant":
            yield {"role": role, "content": text_of(content)}
        case Output():
            # It stands after its call already.
            return
        case _:
            yield _assistant(turn)
            for item in turn:
                if isinstance(item, Call):
                    result = outputs[item.call_id].popleft()
                    yield {"role": "tool", "tool_call_id": item.call_id, "content": result}


def _assistant(turn: Sequence[Item]) -> dict[str, Any]:
    texts = [text_of(item.content) for item in turn if isinstance(item, Message)]
    plain: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    thought = "".join(item.text for item in turn if isinstance(item, Thought))
    if thought:
        plain["reasoning_content"] = thought
    calls = [
        {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}
        for item in turn
        if isinstance(item, Call)
    ]
    return plain | ({"tool_calls": calls} if calls else {})
