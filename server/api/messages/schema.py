"""What may come in: which fields are honoured, and what a turn is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from server.api.drawing import Stop
from server.api.messages.calling import OutputConfig, ToolChoice, Tools, forced, usable
from server.api.messages.history import Message, Texts, conversation
from server.api.messages.parameters import PARAMETERS
from server.api.wire import Array, Wire, checked, stated
from server.errors import InvalidValue, MissingParameter
from server.turn import Speculation, Turn, Wishes

MOST_STOPS = 64


class Thinking(Wire):
    """Whether to think, how long, and whether to show it."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class CountRequest(Wire):
    """The honoured fields of a count; null and absent are the same everywhere."""

    model: str | None = Field(None, max_length=256)
    """Any name means the served model: clients ask for several models of Anthropic's by themselves."""
    messages: Array[Message] = Field(min_length=1)
    system: Texts = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None


class MessagesRequest(CountRequest):
    """The honoured fields of a message."""

    max_tokens: int = Field(ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_k: int | None = Field(None, ge=0, le=2**31)
    top_p: float | None = Field(None, ge=0, le=1)
    stop_sequences: Annotated[Array[Stop], Field(max_length=MOST_STOPS)] | None = None
    stream: bool | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    """Ours, and so is the next: as in a chat completion."""
    speculation: Speculation | None = None


@dataclass(frozen=True)
class Understood:
    """A request that can be answered."""

    turn: Turn
    ignored: tuple[str, ...]
    """What of it nobody here knows: fields, and tools that are not the client's own."""
    model: str | None = None
    """The name that the request uses for the model."""
    stream: bool = False
    omits_thinking: bool = False
    """Thinking is not shown, and goes along in its signature."""


def understood(body: bytes) -> Understood:
    """A request from its bytes to the turn it asks for. It may take a while, so it has no place on the event loop.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    present = _present(body)
    asked = checked(MessagesRequest, present)
    turn, ignored = _turn(asked, present)
    wishes = Wishes(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p, seed=asked.seed)
    return Understood(
        turn=Turn(
            **turn,
            wishes=wishes,
            stops=tuple(asked.stop_sequences or ()),
            max_tokens=asked.max_tokens,
            whole_budget=True,
            thinking_budget=_thinking_budget(asked),
            speculation=asked.speculation,
        ),
        ignored=ignored,
        model=asked.model,
        stream=bool(asked.stream),
        omits_thinking=asked.thinking is not None and asked.thinking.display == "omitted",
    )


def countable(body: bytes) -> Understood:
    """As `understood`, for a prompt that is only to be measured.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    present = _present(body)
    turn, ignored = _turn(checked(CountRequest, present), present)
    return Understood(Turn(**turn), ignored)


def _present(body: bytes) -> dict[str, Any]:
    present = stated(body)
    PARAMETERS.refuse_unsupported(present)
    return present


def _turn(asked: CountRequest, present: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What every turn is made of, by the names of its fields, and what of the request is left out."""
    choice, config = asked.tool_choice, asked.output_config
    tools, skipped = usable(asked.tools)
    held = forced(choice, config.format if config is not None else None, tools, declared=bool(asked.tools))
    shown = () if choice is not None and choice.type == "none" else tuple(tool.plain() for tool in tools.values())
    thinking = {} if asked.thinking is None else {"enable_thinking": asked.thinking.type != "disabled"}
    one = choice is not None and (choice.type == "tool" or bool(choice.disable_parallel_tool_use))
    turn = {
        "messages": conversation(asked.system, asked.messages),
        "tools": shown,
        "forced": held,
        "one_call": one,
        "template_kwargs": thinking,
    }
    return turn, (*PARAMETERS.unknown(present, MessagesRequest.model_fields), *skipped)


def _thinking_budget(asked: MessagesRequest) -> int | None:
    thinking, place = asked.thinking, "thinking.budget_tokens"
    if thinking is None or thinking.type != "enabled":
        if thinking is not None and thinking.budget_tokens is not None:
            raise InvalidValue(f"'{place}' is only allowed with 'type': 'enabled'.", param=place)
        return None
    if thinking.budget_tokens is None:
        raise MissingParameter(f"Missing required parameter: '{place}'.", param=place)
    if thinking.budget_tokens >= asked.max_tokens:
        told = "'max_tokens' must be greater than 'thinking.budget_tokens'."
        raise InvalidValue(told, param="max_tokens")
    return thinking.budget_tokens
