"""The tools of a request, and what it holds the answer to: `tool_choice`, strict tools and `text.format`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from server.api.choosing import Kind, Word, spelled_out
from server.api.wire import Array, Wire, checked
from server.errors import InvalidValue, MissingParameter
from server.turn import Forced
from tools.grammar import AnyJson, JsonAnswer


class Tool(Wire):
    """A function as a client declares it; without `parameters` it takes none."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def plain(self) -> dict[str, Any]:
        """The declaration as a template shows it: what is absent stays absent."""
        shown = {"description": self.description, "parameters": self.parameters}
        present = {key: value for key, value in shown.items() if value is not None}
        return {"type": "function", "function": {"name": self.name} | present}


class Declared(Wire):
    """A tool of any kind: only OpenAI's servers or models know what those that are no functions take."""

    type: str


class Chosen(Wire):
    """One of the tools, as a list of choices names it."""

    type: Literal["function"]
    name: str = Field(min_length=1)


class ToolChoice(Wire):
    """Which calls there may or must be."""

    type: Kind
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Array[Chosen] | None = Field(None, min_length=1)

    @property
    def required(self) -> bool:
        """Whether there must be a call."""
        return self.type in ("required", "function") or self.mode == "required"

    def names(self) -> Mapping[str, str] | None:
        """The tools that may be called, each with its place; None for all.

        Raises:
            MissingParameter: some are chosen, and it is not said which.
        """
        match self:
            case ToolChoice(type="function", name=None):
                raise _missing("tool_choice.name")
            case ToolChoice(type="allowed_tools", tools=None):
                raise _missing("tool_choice.tools")
            case ToolChoice(type="function", name=str(name)):
                return {name: "tool_choice.name"}
            case ToolChoice(type="allowed_tools", tools=list(tools)):
                return {tool.name: f"tool_choice.tools[{index}].name" for index, tool in enumerate(tools)}
        return None


def _missing(place: str) -> MissingParameter:
    return MissingParameter(f"Missing required parameter: '{place}'.", param=place)


AnyChoice = Annotated[ToolChoice, BeforeValidator(spelled_out, json_schema_input_type=Word | ToolChoice)]


class Format(Wire):
    """What the answer is, unless it is a call."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None

    @property
    def answer(self) -> JsonAnswer | None:
        """What that means for the text.

        Raises:
            MissingParameter: a schema is announced, and there is none.
        """
        match self.type:
            case "text":
                return None
            case "json_object":
                return AnyJson
            case "json_schema":
                if self.schema_ is None:
                    raise _missing("text.format.schema")
                return JsonAnswer(self.schema_, bool(self.strict))


def usable(tools: Sequence[dict[str, Any]] | None) -> tuple[dict[int, Tool], tuple[str, ...]]:
    """The functions, by their places in the request, and the places of other tools, which are left out.

    Raises:
        Refusal: a declaration is wrong, by its place.
    """
    shown: dict[int, Tool] = {}
    skipped: list[str] = []
    for index, tool in enumerate(tools or ()):
        place = f"tools[{index}]"
        if checked(Declared, tool, place).type == "function":
            shown[index] = checked(Tool, tool, place)
        else:
            skipped.append(place)
    return shown, tuple(skipped)


def forced(choice: ToolChoice | None, shape: Format | None, tools: Mapping[int, Tool]) -> Forced:
    """What a turn is held to, given the tools that can be shown.

    Raises:
        InvalidValue: a tool is chosen that cannot be called, or there is none to choose from.
        MissingParameter: a schema is announced, or a tool chosen, and there is none.
    """
    answer = None if shape is None else shape.answer
    if choice is not None and choice.type == "none":
        return Forced(answer, param="text.format.schema")
    called, names = choice is not None and choice.required, None if choice is None else choice.names()
    if (called or names) and not tools:
        told = "'tool_choice' asks for a call, and none of 'tools' is a function."
        raise InvalidValue(told, param="tool_choice")
    for name, place in (names or {}).items():
        if name not in {tool.name for tool in tools.values()}:
            raise InvalidValue(f"Tool choice '{name[:100]}' is not among the functions in 'tools'.", param=place)
    return Forced(
        answer=answer,
        called=called,
        callable=None if names is None else frozenset(names),
        strict=frozenset(tool.name for tool in tools.values() if tool.strict),
        param="text.format.schema" if answer is not None else "tool_choice" if called or names else "tools",
        places={tool.name: f"tools[{index}].parameters" for index, tool in tools.items()},
    )
