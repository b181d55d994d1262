"""The README tells the truth about commands, flags and fields."""

import re
from importlib.util import find_spec

import click
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from server.api.chat.parameters import ONLY, WITHOUT_EFFECT
from server.api.chat.schema import ChatRequest
from server.cli import main, serve
from tests.runtime.readme import README, ROOT, row

COMMANDS = [
    "uv run laguna serve",
    "uv run --extra test pytest",
    'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/laguna serve',
    'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/pytest',
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_set_up_commands_are_one_line_each(command: str) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", README.partition("## Quick start\n")[2], re.DOTALL)
    assert command in "".join(blocks[:2]).splitlines()


def anchor(heading: str) -> str:
    """Where a heading can be linked to."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_link_inside_leads_somewhere() -> None:
    headings = {anchor(line.lstrip("# ")) for line in README.splitlines() if re.match("#{1,3} ", line)}
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert [link for link in links if link.startswith("#") and link[1:] not in headings] == []
    paths = [link for link in links if not link.startswith(("#", "http"))]
    assert len(paths) > 4
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_every_module_and_file_that_it_names_exists() -> None:
    modules = set(re.findall(r"python -m ([\w.]+\w)", README))
    assert len(modules) > 6
    assert [name for name in modules if find_spec(name) is None] == []
    places = set(re.findall(r"`((?:server|models|tools|tests|\.ci)/[\w./-]*)`", README))
    assert len(places) > 10
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_fold_has_a_title_and_an_end_and_room_for_what_is_in_it() -> None:
    folds = re.findall(r"^<details><summary>[^\n]+</summary>\n\n.*?\n\n</details>$", README, re.DOTALL | re.MULTILINE)
    assert len(folds) == README.count("<details>") == README.count("</details>") > 5


def test_its_lines_can_be_read_in_an_editor_too() -> None:
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE).splitlines()
    long = [line for line in prose if len(line) > 120 and not line.startswith(("|", "![", "<details>"))]
    assert [line for line in long if " " in line.lstrip("- ")] == []


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
