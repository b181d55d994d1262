"""What a client may hold an answer to: `tool_choice`, `response_format` and strict tools, read and checked."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from server.api.choosing import Kind, Word, spelled_out
from server.api.wire import Array, Wire
from server.errors import InvalidValue, MissingParameter
from server.turn import Forced
from tools.grammar import AnyJson, JsonAnswer


class Named(Wire):
    """A tool by its name."""

    name: str = Field(min_length=1)


class Choice(Wire):
    """One tool of a list of choices; only functions can be called here."""

    type: Literal["function"]
    function: Named


class Allowed(Wire):
    """Some of the tools, and whether one of them has to be called."""

    mode: Literal["auto", "required"]
    tools: Array[Choice] = Field(min_length=1)


class ToolChoice(Wire):
    """Which calls there may or must be."""

    type: Kind
    function: Named | None = None
    allowed_tools: Allowed | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type in ("function", "allowed_tools") and (self.function or self.allowed_tools) is None:
            raise PydanticCustomError("choice", "expected the tools that are chosen")
        return self

    @property
    def required(self) -> bool:
        """Whether there must be a call."""
        chosen = self.allowed_tools is not None and self.allowed_tools.mode == "required"
        return chosen or self.type in ("required", "function")

    @property
    def names(self) -> Mapping[str, str] | None:
        """The tools that may be called, each with its place; None for all."""
        if self.type == "function" and self.function is not None:
            return {self.function.name: "tool_choice.function.name"}
        if self.type == "allowed_tools" and self.allowed_tools is not None:
            place = "tool_choice.allowed_tools.tools[{}].function.name"
            return {tool.function.name: place.format(i) for i, tool in enumerate(self.allowed_tools.tools)}
        return None


AnyChoice = Annotated[ToolChoice, BeforeValidator(spelled_out, json_schema_input_type=Word | ToolChoice)]


class JsonSchema(Wire):
    """A schema with its name, which says nothing here."""

    name: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Wire):
    """What the answer is, unless it is a call."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    """Where llama.cpp's clients put it."""

    @property
    def answer(self) -> JsonAnswer | None:
        """What that means for the text.

        Raises:
            MissingParameter: a schema is announced, and there is none.
        """
        inner = self.json_schema or JsonSchema()
        schema = self.schema_ if inner.schema_ is None else inner.schema_
        if self.type == "text":
            return None
        if schema is None and self.type == "json_schema":
            place = "response_format.json_schema.schema"
            raise MissingParameter(f"Missing required parameter: '{place}'.", param=place)
        return AnyJson if schema is None else JsonAnswer(schema, bool(inner.strict))


def forced(choice: ToolChoice | None, shape: ResponseFormat | None, tools: Sequence[tuple[str, bool]]) -> Forced:
    """What a turn is held to, given the names of its tools and whether each is strict.

    Raises:
        InvalidValue: a tool is chosen that is not declared, or there is none to choose from.
        MissingParameter: a schema is announced, and there is none.
    """
    names = choice.names if choice is not None else None
    if choice is not None and choice.type != "none" and not tools:
        raise InvalidValue("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    for name, place in (names or {}).items():
        if name not in dict(tools):
            raise InvalidValue(f"Tool choice '{name}' is not among the 'tools'.", param=place)
    answer, called = shape.answer if shape is not None else None, choice is not None and choice.required
    if choice is not None and choice.type == "none":
        return Forced(answer)
    return Forced(
        answer=answer,
        called=called,
        callable=None if names is None else frozenset(names),
        strict=frozenset(name for name, strict in tools if strict),
        param="response_format" if answer is not None else "tool_choice" if called or names else "tools",
        places={name: f"tools[{i}].function.parameters" for i, (name, _) in enumerate(tools)},
    )
