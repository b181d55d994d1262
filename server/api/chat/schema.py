"""What may come in: which fields are honoured, which may only hold their default, and what a turn is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from models.decode.request import MOST_LOGPROBS
from models.template import RESERVED
from server.api.chat.forcing import AnyChoice, ResponseFormat, forced
from server.api.chat.history import Message, conversation
from server.api.chat.parameters import PARAMETERS
from server.api.drawing import Drawing
from server.api.effort import Effort, thinks
from server.api.parts import Part, Text, text_of
from server.api.wire import Array, Wire, checked, quoted, stated
from server.errors import InvalidValue, ParameterConflict
from server.turn import Turn

RESERVED_KWARGS = RESERVED | {"self"}
"""Template arguments that the server sets itself; `self` is Python's own."""


class Function(Wire):
    """A function as a client declares it; without `parameters` it takes none."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


def _callable(kind: object) -> object:
    if isinstance(kind, str) and kind != "function":
        told = "only functions can be called here, and '{kind}' is another kind of tool"
        raise PydanticCustomError("tool_kind", told, {"kind": quoted(kind)})
    return kind


class Tool(Wire):
    """A tool the model may call."""

    type: Annotated[Literal["function"], BeforeValidator(_callable)]
    function: Function

    def plain(self) -> dict[str, Any]:
        """The declaration as a template shows it: what is absent stays absent."""
        declared = {"name": self.function.name}
        shown = {"description": self.function.description, "parameters": self.function.parameters}
        present = {key: value for key, value in shown.items() if value is not None}
        return {"type": "function", "function": declared | present}


class Prediction(Wire):
    """What the client expects the answer to say."""

    type: Literal["content"]
    content: Text

    @field_validator("content")
    @classmethod
    def _is_there(cls, content: list[Part] | None) -> list[Part]:
        if content is None:
            raise PydanticCustomError("content_type", "expected a string or an array of text parts")
        return content


class Telling(Wire):
    """What else of ours an answer should tell. A name that is not known here is refused: it can only be misspelt."""

    model_config = ConfigDict(extra="forbid")

    tokens: bool | None = None
    """Every token's text, and who wrote it."""


class ChatRequest(Drawing):
    """The honoured fields of a chat completion; null and absent are the same everywhere."""

    model: str | None = None
    messages: Array[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    thinking_token_budget: int | None = Field(None, ge=0)
    """vLLM's name. Thinking that the prompt opens ends after so many tokens."""
    prediction: Prediction | None = None
    tools: Array[Tool] | None = None
    tool_choice: AnyChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: Effort | None = None
    laguna: Telling | None = None

    @property
    def writers(self) -> bool:
        """Whether every token is to be told with who wrote it."""
        return self.laguna is not None and bool(self.laguna.tokens)

    def checked_together(self) -> Self:
        """The request, if no two fields of it are at odds.

        Raises:
            ParameterConflict, InvalidValue: by the name of one of them.
        """
        budget = self.max_tokens or self.max_completion_tokens
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ParameterConflict("Set 'max_tokens' or 'max_completion_tokens', not both.", param="max_tokens")
        self.check_bounds(budget)
        if self.top_logprobs is not None and not self.logprobs:
            raise InvalidValue("'top_logprobs' is only allowed with 'logprobs': true.", param="top_logprobs")
        return self


@dataclass(frozen=True)
class Understood:
    """A request that can be answered."""

    asked: ChatRequest
    turn: Turn
    ignored: tuple[str, ...]
    """Names of fields that nobody here knows."""


def understood(body: bytes) -> Understood:
    """A request from its bytes to the turn it asks for. It may take a while, so it has no place on the event loop.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    present = stated(body)
    asked = read(present)
    return Understood(asked, turn(asked), PARAMETERS.unknown(present, ChatRequest.model_fields))


def read(body: Mapping[str, Any]) -> ChatRequest:
    """A checked request.

    Raises:
        Refusal: by the name of the first parameter that is wrong, or set and not honoured.
    """
    present = {name: value for name, value in body.items() if value is not None}
    PARAMETERS.refuse_unsupported(present)
    asked = checked(ChatRequest, present).checked_together()
    for name in sorted(RESERVED_KWARGS & (asked.chat_template_kwargs or {}).keys()):
        param = f"chat_template_kwargs.{name}"
        raise InvalidValue(f"'{param}' cannot be set: the server does.", param=param)
    return asked


def turn(asked: ChatRequest) -> Turn:
    """The request in no vendor's words: the last line on the way down that knows OpenAI's.

    Raises:
        Refusal: the messages do not make a conversation, or the answer is to be what it cannot be.
    """
    choice, tools = asked.tool_choice, asked.tools or ()
    held = forced(choice, asked.response_format, [(tool.function.name, bool(tool.function.strict)) for tool in tools])
    effort = {} if asked.reasoning_effort is None else {"enable_thinking": thinks(asked.reasoning_effort)}
    return Turn(
        messages=conversation(asked.messages),
        tools=() if choice is not None and choice.type == "none" else tuple(tool.plain() for tool in tools),
        wishes=asked.wishes,
        stops=tuple(asked.stop or ()),
        max_tokens=asked.max_tokens or asked.max_completion_tokens,
        min_tokens=asked.min_tokens or 0,
        thinking_budget=asked.thinking_token_budget,
        choices=asked.n or 1,
        top_logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        writers=asked.writers,
        prediction="" if asked.prediction is None else text_of(asked.prediction.content),
        one_call=asked.parallel_tool_calls is False or (choice is not None and choice.type == "function"),
        forced=held,
        template_kwargs=effort | (asked.chat_template_kwargs or {}),
        speculation=asked.speculation,
    )
