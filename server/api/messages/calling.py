"""The tools of a request, and what it holds the answer to: `tool_choice`, strict tools and `output_config.format`."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from server.api.wire import Array, Wire, checked
from server.errors import InvalidValue, MissingParameter
from server.turn import Forced
from tools.grammar import JsonAnswer


class Tool(Wire):
    """A tool that the client runs, as it declares it."""

    type: Literal["custom"] | None = None
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None

    def plain(self) -> dict[str, Any]:
        """The declaration as a template shows it: what is absent stays absent."""
        described = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": self.input_schema}}


_DATED = re.compile(r"[a-z_]+_20[0-9]{6}")


class Declared(Wire):
    """A tool of any kind: only Anthropic's servers or models know what those with a type of their own take."""

    type: str | None = None

    @property
    def foreign(self) -> bool:
        """Whether it is one of Anthropic's own: their types end with a date."""
        return self.type is not None and _DATED.fullmatch(self.type) is not None


class ToolChoice(Wire):
    """Which uses there may or must be."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Format(Wire):
    """The shape of an answer that is no use of a tool."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Wire):
    """How to answer. Laguna thinks or does not, so the effort says nothing."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Format | None = None


def usable(tools: Sequence[dict[str, Any]] | None) -> tuple[dict[int, Tool], tuple[str, ...]]:
    """The tools that can be shown to the model, by their places in the request, and the places of those left out.

    Raises:
        Refusal: a declaration is wrong, by its place.
    """
    shown: dict[int, Tool] = {}
    skipped: list[str] = []
    names: set[str] = set()
    for index, tool in enumerate(tools or ()):
        place = f"tools[{index}]"
        if checked(Declared, tool, place).foreign:
            skipped.append(place)
        else:
            shown[index] = checked(Tool, tool, place)
            _check_name(shown[index].name, names, place)
    return shown, tuple(skipped)


def _check_name(name: str, names: set[str], place: str) -> None:
    if name in names:
        raise InvalidValue(f"Invalid value for '{place}.name': tool names must be unique.", param=f"{place}.name")
    names.add(name)


def forced(choice: ToolChoice | None, answer: Format | None, tools: dict[int, Tool], *, declared: bool) -> Forced:
    """What a turn is held to. `tools` are those that can be shown; `declared` says whether there were any at all.

    Raises:
        InvalidValue: a tool is chosen that cannot be used, or there is none to choose from.
        MissingParameter: one tool is to be used, and it is not said which.
    """
    if choice is not None and choice.type != "none":
        _check_choice(choice, tools, declared=declared)
    held = None if answer is None else JsonAnswer(answer.schema_, strict=True)
    if choice is not None and choice.type == "none":
        return Forced(held, param="output_config.format.schema")
    called = choice is not None and choice.type in ("any", "tool")
    return Forced(
        answer=held,
        called=called,
        callable=frozenset({choice.name}) if choice and choice.type == "tool" and choice.name else None,
        strict=frozenset(tool.name for tool in tools.values() if tool.strict),
        param="output_config.format.schema" if held is not None else "tool_choice" if called else "tools",
        places={tool.name: f"tools[{index}].input_schema" for index, tool in tools.items()},
    )


def _check_choice(choice: ToolChoice, tools: dict[int, Tool], *, declared: bool) -> None:
    if not declared:
        raise InvalidValue("'tool_choice' may only be specified while providing 'tools'.", param="tool_choice")
    if choice.type == "any" and not tools:
        raise InvalidValue("'tool_choice' asks for a tool, and none of 'tools' can be used here.", param="tool_choice")
    if choice.type != "tool" and choice.name is not None:
        raise InvalidValue("'tool_choice.name' is only allowed with 'type': 'tool'.", param="tool_choice.name")
    if choice.type != "tool":
        return
    if choice.name is None:
        raise MissingParameter("Missing required parameter: 'tool_choice.name'.", param="tool_choice.name")
    if choice.name not in {tool.name for tool in tools.values()}:
        told = f"Tool '{choice.name[:100]}' is not among the 'tools' that can be used here."
        raise InvalidValue(told, param="tool_choice.name")


Tools = Array[dict[str, Any]]
