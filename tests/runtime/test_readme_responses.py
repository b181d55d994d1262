"""The README tells the truth about the fields of responses."""

import re
from pathlib import Path

from openai.types.responses.response_create_params import ResponseCreateParamsBase

from server.api.responses.items import KINDS
from server.api.responses.parameters import ONLY, WITHOUT_EFFECT
from server.api.responses.schema import ResponsesRequest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
TABLE = README.partition("| | `/v1/responses` |")[2].partition("\n\n")[0]


def row(title: str) -> set[str]:
    """The names in backticks in one row of its table."""
    line = next(line for line in TABLE.splitlines() if line.startswith(f"| {title} |"))
    return set(re.findall(r"`([a-z_]+)`", line))


def test_every_field_is_in_the_row_of_what_is_done_with_it() -> None:
    assert ResponsesRequest.model_fields.keys() <= row("conversation") | row("answer")
    assert KINDS.keys() <= row("conversation")
    assert row("accepted, and without effect") >= WITHOUT_EFFECT
    assert row("refused, but for their defaults") >= ONLY.keys()
    rows = (ResponsesRequest.model_fields.keys(), WITHOUT_EFFECT, ONLY.keys())
    assert sum(map(len, rows)) == len(set().union(*rows))


def test_every_parameter_of_openais_api_is_honoured_refused_or_listed_as_without_effect() -> None:
    theirs = {"stream", *ResponseCreateParamsBase.__annotations__}
    assert theirs <= {*ResponsesRequest.model_fields, *WITHOUT_EFFECT, *ONLY}
