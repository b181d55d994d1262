"""What may come in: which fields are honoured, which may only hold their default, and what a turn is made of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from server.api.chat.history import Message, conversation
from server.api.wire import Array, Wire, checked, parsed
from server.errors import InvalidValue, ParameterConflict, UnsupportedParameter
from server.turn import Turn, Wishes

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "n": (1,),
        "logprobs": (False,),
        "top_logprobs": (0,),
        "logit_bias": ({},),
        "presence_penalty": (0, 0.0),
        "frequency_penalty": (0, 0.0),
        "repetition_penalty": (1, 1.0),
        "response_format": ({"type": "text"},),
        "tool_choice": ("auto", "none"),
        "parallel_tool_calls": (True,),
        "functions": ([],),
        "function_call": ("none",),
        "prediction": (),
        "modalities": (["text"],),
        "moderation": (),
        "audio": (),
        "verbosity": ("medium",),
        "web_search_options": (),
        "service_tier": ("auto", "default"),
    }
)
"""Fields that would change the answer and are not honoured beyond these values; anything else is refused by name."""

RESERVED_KWARGS = frozenset({"self", "messages", "tools", "add_generation_prompt"})
"""Template arguments that the server sets itself."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _one_is_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


LONGEST_STOP = 1024
"""Characters in a stop string: each costs memory for as long as the answer is written."""

Stop = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = Annotated[Array[Stop], Field(max_length=4), BeforeValidator(_one_is_many)]


class StreamOptions(Wire):
    """What else a stream should tell."""

    include_usage: bool | None = None


class Function(Wire):
    """A function as a client declares it; without `parameters` it takes none."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Wire):
    """A tool the model may call."""

    type: Literal["function"]
    function: Function

    def plain(self) -> dict[str, Any]:
        """The declaration as a template shows it: what is absent stays absent."""
        declared = {"name": self.function.name}
        shown = {"description": self.function.description, "parameters": self.function.parameters}
        present = {key: value for key, value in shown.items() if value is not None}
        return {"type": "function", "function": declared | present}


class ChatRequest(Wire):
    """The honoured fields of a chat completion; null and absent are the same everywhere."""

    model: str | None = None
    messages: Array[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31)
    """0 and -1 are off."""
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Stops | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Array[Tool] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: Effort | None = None
    speculation: Literal["auto", "always", "off"] | None = None
    """Ours: how eagerly to draft. The text is the same whatever it says."""

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)


def understood(body: bytes) -> tuple[ChatRequest, Turn]:
    """A request from its bytes to the turn it asks for. It may take a while, so it has no place on the event loop.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    asked = read(parsed(body))
    return asked, turn(asked)


def read(body: Mapping[str, Any]) -> ChatRequest:
    """A checked request.

    Raises:
        Refusal: by the name of the first parameter that is wrong, or set and not honoured.
    """
    present = {name: value for name, value in body.items() if value is not None}
    _refuse_unsupported(present)
    asked = checked(ChatRequest, present)
    if asked.max_tokens is not None and asked.max_completion_tokens is not None:
        raise ParameterConflict("Set 'max_tokens' or 'max_completion_tokens', not both.", param="max_tokens")
    if asked.stream_options is not None and not asked.stream:
        raise InvalidValue("'stream_options' is only allowed with 'stream': true.", param="stream_options")
    if asked.tool_choice == "auto" and not asked.tools:
        raise InvalidValue("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    for name in RESERVED_KWARGS & (asked.chat_template_kwargs or {}).keys():
        param = f"chat_template_kwargs.{name}"
        raise InvalidValue(f"'{param}' cannot be set: the server does.", param=param)
    return asked


def _refuse_unsupported(present: Mapping[str, Any]) -> None:
    for name, allowed in ONLY.items():
        if name in present and not any(_same(present[name], value) for value in allowed):
            raise UnsupportedParameter(f"'{name}' is not supported{_except(allowed)}.", param=name)


def _same(value: object, allowed: object) -> bool:
    """Equality that keeps true and 1 apart."""
    return type(value) is type(allowed) and value == allowed


def _except(allowed: tuple[Any, ...]) -> str:
    values = list(dict.fromkeys(str(value) for value in allowed))
    return f" with any other value than {' or '.join(values)}" if values else ""


def turn(asked: ChatRequest) -> Turn:
    """The request in no vendor's words: the last line on the way down that knows OpenAI's.

    Raises:
        Refusal: the messages do not make a conversation.
    """
    callable_now = () if asked.tool_choice == "none" else asked.tools or ()
    effort = {} if asked.reasoning_effort is None else {"enable_thinking": thinks(asked.reasoning_effort)}
    return Turn(
        messages=conversation(asked.messages),
        tools=tuple(tool.plain() for tool in callable_now),
        wishes=Wishes(
            temperature=asked.temperature,
            top_k=None if asked.top_k is None else max(asked.top_k, 0),
            top_p=asked.top_p,
            min_p=asked.min_p,
            seed=asked.seed,
        ),
        stops=tuple(asked.stop or ()),
        max_tokens=asked.max_tokens or asked.max_completion_tokens,
        template_kwargs=effort | (asked.chat_template_kwargs or {}),
        speculation=asked.speculation,
    )


def thinks(effort: Effort) -> bool:
    """Laguna knows thinking as on or off only."""
    return effort not in ("none", "minimal")
