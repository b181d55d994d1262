"""The README tells the truth about commands, flags and fields."""

import re

import click
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from server.api.chat.parameters import ONLY, WITHOUT_EFFECT
from server.api.chat.schema import ChatRequest
from server.cli import main, serve
from tests.runtime.readme import README, row

COMMANDS = [
    "uv run laguna serve",
    "uv run --extra test pytest",
    'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/laguna serve',
    'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/pytest',
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_set_up_commands_are_one_line_each(command: str) -> None:
    assert f"`{command}`" in README


def test_every_flag_it_names_exists() -> None:
    assert main.commands["serve"] is serve
    flags = {flag for option in serve.get_params(click.Context(serve)) for flag in option.opts}
    shown = set(re.findall(r"laguna serve (--[a-z-]+)|(?<=`)(--spec[a-z-]+)", README))
    assert {flag for pair in shown for flag in pair if flag} <= flags


def test_every_honoured_field_is_listed_as_honoured() -> None:
    assert ChatRequest.model_fields.keys() <= row("honoured")


def test_the_refused_fields_are_listed_as_refused_and_no_others() -> None:
    assert ONLY.keys() == row("refused, unless at its default")


def test_every_parameter_of_openais_api_is_honoured_refused_or_listed_as_without_effect() -> None:
    theirs = {"stream", *CompletionCreateParamsBase.__annotations__, *WITHOUT_EFFECT}
    assert theirs - ChatRequest.model_fields.keys() - ONLY.keys() <= row("accepted, without effect")
