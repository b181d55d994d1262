"""What may come in: which fields are honoured, and what a turn is made of."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from models.decode.request import MOST_LOGPROBS
from server.api.drawing import Chances
from server.api.effort import Effort, thinks
from server.api.responses.calling import AnyChoice, Format, forced, usable
from server.api.responses.items import Item, conversation, read
from server.api.responses.parameters import PARAMETERS
from server.api.responses.store import Kept, Store
from server.api.wire import Array, Wire, checked, stated
from server.errors import InvalidValue, UnsupportedParameter
from server.turn import Turn

SEALED, LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
INCLUDABLE = frozenset(
    {
        SEALED,
        LOGPROBS,
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
"""What OpenAI's API knows; all but the first two tell of tools and parts that are not there."""

Summary = Literal["auto", "concise", "detailed"]


class Reasoning(Wire):
    """Whether to think, and under which name to show it. Which thoughts are shown again is the client's choice."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None
    mode: Literal["standard"] | None = None


class TextOptions(Wire):
    """The shape of an answer's text."""

    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


def _as_items(value: object) -> object:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise PydanticCustomError("input_type", "expected a string or an array of items")
    return value


Input = str | list[dict[str, Any]]
"""Items are read one by one, by their kinds."""


class ResponsesRequest(Chances):
    """The honoured fields of a response; null and absent are the same everywhere."""

    model: str | None = None
    input: Annotated[Array[dict[str, Any]], BeforeValidator(_as_items, json_schema_input_type=Input)] = Field(
        default_factory=list
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    tools: Array[dict[str, Any]] | None = None
    tool_choice: AnyChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    include: Array[str] | None = None
    metadata: dict[str, str] | None = Field(None, max_length=16)
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"] | None = None
    stream: bool | None = None

    @property
    def included(self) -> frozenset[str]:
        """What else the answer is to tell."""
        return frozenset(self.include or ())

    @property
    def scores(self) -> int | None:
        """How many likelier tokens to tell of beside each of the text's; None tells of no likelihood at all."""
        return self.top_logprobs or (0 if LOGPROBS in self.included else None)

    @property
    def summarised(self) -> bool:
        """Whether thinking is shown as summaries, which here are all of it."""
        return self.reasoning is not None and (self.reasoning.summary or self.reasoning.generate_summary) is not None


@dataclass(frozen=True)
class Understood:
    """A request that can be answered."""

    asked: ResponsesRequest
    present: dict[str, Any]
    """The fields that are set, as they came."""
    key: str
    """32 hexadecimal digits, new for each answer; all ids in it are made from them."""
    turn: Turn
    items: tuple[Item, ...]
    """The whole conversation up to here."""
    listed: tuple[dict[str, Any], ...]
    """This request's own items as they came, each with an id."""
    stored: bool
    """The answer is kept for later requests."""
    size: int
    """Bytes of all that it took to ask, earlier requests included."""
    ignored: tuple[str, ...]
    """What of it nobody here knows: fields, things to include, and tools that are no functions."""

    def kept(self, response: dict[str, Any], output: tuple[Item, ...], size: int) -> Kept:
        """What later requests may want of this one and its answer, which takes so many bytes more."""
        return Kept(response, self.listed, (*self.items, *output), self.size + size)


def understood(body: bytes, store: Store) -> Understood:
    """A request from its bytes to the turn it asks for. It may take a while, so it has no place on the event loop.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    present = stated(body)
    PARAMETERS.refuse_unsupported(present)
    asked = checked(ResponsesRequest, present)
    _check_together(asked)
    earlier = None if asked.previous_response_id is None else store.previous(asked.previous_response_id)
    key = uuid.uuid4().hex
    listed = tuple(_identified(item, key, index) for index, item in enumerate(asked.input))
    own = _items(listed, store.item)
    items = (*(earlier.items if earlier is not None else ()), *own)
    if not items:
        raise InvalidValue("Invalid value for 'input': there is nothing to answer.", param="input")
    turn, skipped = _turn(asked, items)
    return Understood(
        asked=asked,
        present=present,
        key=key,
        turn=turn,
        items=items,
        listed=listed,
        stored=asked.store is not False and store.keeps,
        size=len(body) + (earlier.size if earlier is not None else 0),
        ignored=(*PARAMETERS.unknown(present, ResponsesRequest.model_fields), *_not_includable(asked), *skipped),
    )


def _check_together(asked: ResponsesRequest) -> None:
    if asked.text is not None and asked.text.verbosity not in (None, "medium"):
        told = "'text.verbosity' is not supported with any other value than medium."
        raise UnsupportedParameter(told, param="text.verbosity")
    if asked.top_logprobs and LOGPROBS not in asked.included:
        told = f"'top_logprobs' is only allowed with '{LOGPROBS}' in 'include'."
        raise InvalidValue(told, param="top_logprobs")


def _identified(item: dict[str, Any], key: str, index: int) -> dict[str, Any]:
    """The item in full: with its type, an id, and parts instead of a text."""
    whole = item | {"type": "message"} if item.get("type") is None else dict(item)
    if not isinstance(item.get("id"), str):
        whole["id"] = f"in_{key}{index}"
    if isinstance(item.get("content"), str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        whole["content"] = [{"type": kind, "text": item["content"]}]
    return whole


def _items(listed: tuple[dict[str, Any], ...], find: Callable[[str], Item | None]) -> tuple[Item, ...]:
    return tuple(read(item, f"input[{index}]", find) for index, item in enumerate(listed))


def _not_includable(asked: ResponsesRequest) -> tuple[str, ...]:
    return tuple(f"include[{i}]" for i, name in enumerate(asked.include or ()) if name not in INCLUDABLE)


def _turn(asked: ResponsesRequest, items: tuple[Item, ...]) -> tuple[Turn, tuple[str, ...]]:
    """The request in no vendor's words, and the places of what it leaves out."""
    choice, tools_shown = asked.tool_choice, asked.tool_choice is None or asked.tool_choice.type != "none"
    tools, skipped = usable(asked.tools)
    effort = asked.reasoning.effort if asked.reasoning is not None else None
    turn = Turn(
        messages=conversation(asked.instructions, items),
        place="input",
        tools=tuple(tool.plain() for tool in tools.values()) if tools_shown else (),
        wishes=asked.wishes,
        max_tokens=asked.max_output_tokens,
        top_logprobs=asked.scores,
        one_call=asked.parallel_tool_calls is False or (choice is not None and choice.type == "function"),
        forced=forced(choice, asked.text.format if asked.text is not None else None, tools),
        template_kwargs={} if effort is None else {"enable_thinking": thinks(effort)},
        speculation=asked.speculation,
    )
    return turn, skipped
