"""What may come in: prompts as text or as token ids, and which fields are honoured."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from server.api.drawing import Drawing
from server.api.parameters import Parameters
from server.api.wire import checked, stated
from server.errors import InvalidValue, UnsupportedParameter
from server.turn import Plain, Turn

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType({"suffix": ("",)})
"""Fields that would change the answer and are not honoured beyond these values; anything else is refused by name."""

WITHOUT_EFFECT = frozenset({"user", "repetition_context_size"})
"""Fields that are accepted and documented, and change nothing here."""

PARAMETERS = Parameters(ONLY, WITHOUT_EFFECT)

MAX_TOKENS = 16
"""OpenAI's, for requests that do not say."""
MOST_LOGPROBS = 5
MOST_ANSWERS = 64
"""Prompts times choices in one request."""

Prompts = tuple[str | tuple[int, ...], ...]

Text = Annotated[str, Field(min_length=1)]
Ids = Annotated[list[int], Field(min_length=1)]
AnyPrompts = Text | Ids | Annotated[list[Text | Ids], Field(min_length=1)]
"""The four forms, as they come."""


def _as_many(value: object) -> object:
    """Each of the four forms as a list of prompts."""
    match value:
        case str():
            prompts: list[object] = [value]
        case [int(), *_]:
            prompts = [value]
        case list():
            prompts = value
        case _:
            prompts = [value]
    if not prompts:
        raise PydanticCustomError("no_prompt", "expected at least one prompt")
    return tuple(_one(prompt) for prompt in prompts)


def _one(prompt: object) -> str | tuple[int, ...]:
    match prompt:
        case "" | []:
            raise PydanticCustomError("empty_prompt", "a prompt must not be empty")
        case str():
            return prompt
        case list() if all(type(id_) is int for id_ in prompt):
            return tuple(prompt)
    raise PydanticCustomError("prompt_type", "expected a string, token ids, or an array of strings or of token ids")


class CompletionRequest(Drawing):
    """The honoured fields of a completion; null and absent are the same everywhere."""

    model: str | None = None
    prompt: Annotated[Prompts, BeforeValidator(_as_many, json_schema_input_type=AnyPrompts)]
    max_tokens: int | None = Field(None, ge=1)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    best_of: int | None = Field(None, ge=1)
    add_special_tokens: bool | None = None
    """vLLM's name. Text begins with the tokenizer's own opening tokens, unless this is false."""

    @property
    def choices(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt is repeated token by token."""
        return bool(self.echo) and self.logprobs is not None

    def check_together(self) -> None:
        """Raises a refusal by the name of the first field that is at odds with another."""
        self.check_bounds(self.max_tokens or MAX_TOKENS)
        if self.best_of is not None and self.best_of != self.choices:
            told = f"'best_of' is not supported with any other value than that of 'n', {self.choices}."
            raise UnsupportedParameter(told, param="best_of")
        if len(self.prompt) * self.choices > MOST_ANSWERS:
            told = f"{len(self.prompt)} prompts with {self.choices} answers each are more than {MOST_ANSWERS} answers."
            raise InvalidValue(f"Invalid value for 'prompt': {told}", param="prompt")


@dataclass(frozen=True)
class Understood:
    """A request that can be answered."""

    asked: CompletionRequest
    turns: tuple[Turn, ...]
    """One a prompt."""
    ignored: tuple[str, ...]
    """Names of fields that nobody here knows."""


def understood(body: bytes) -> Understood:
    """A request from its bytes to the turns it asks for. It may take a while, so it has no place on the event loop.

    Raises:
        Refusal: by name, whatever is wrong with it.
    """
    present = stated(body)
    PARAMETERS.refuse_unsupported(present)
    asked = checked(CompletionRequest, present)
    asked.check_together()
    turns = tuple(_turn(asked, prompt) for prompt in asked.prompt)
    return Understood(asked, turns, PARAMETERS.unknown(present, CompletionRequest.model_fields))


def _turn(asked: CompletionRequest, prompt: str | tuple[int, ...]) -> Turn:
    return Turn(
        place="prompt",
        plain=Plain(prompt, opened=asked.add_special_tokens is not False, scored=asked.scores_prompt),
        wishes=asked.wishes,
        stops=tuple(asked.stop or ()),
        max_tokens=asked.max_tokens or MAX_TOKENS,
        min_tokens=asked.min_tokens or 0,
        choices=asked.choices,
        top_logprobs=asked.logprobs,
        speculation=asked.speculation,
    )
