"""The README tells the truth about the fields of completions."""

import re
from pathlib import Path

from openai.types.completion_create_params import CompletionCreateParamsBase

from server.api.completions.schema import MOST_ANSWERS, ONLY, WITHOUT_EFFECT, CompletionRequest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
TABLE = README.partition("| | `/v1/completions` |")[2].partition("\n\n")[0]


def row(title: str) -> set[str]:
    """The names in backticks in one row of its table."""
    line = next(line for line in TABLE.splitlines() if line.startswith(f"| {title} |"))
    return set(re.findall(r"`([a-z_]+)`", line))


def test_the_table_lists_what_is_honoured_what_has_no_effect_and_what_is_refused() -> None:
    assert row("prompt and form") | row("drawing") == set(CompletionRequest.model_fields)
    assert row("no effect") == WITHOUT_EFFECT
    assert row("refused by name") == ONLY.keys()
    assert f"at most {MOST_ANSWERS} answers" in TABLE


def test_every_parameter_of_openais_api_is_in_the_table() -> None:
    theirs = {"stream", *CompletionCreateParamsBase.__annotations__}
    assert theirs <= CompletionRequest.model_fields.keys() | ONLY.keys() | WITHOUT_EFFECT
