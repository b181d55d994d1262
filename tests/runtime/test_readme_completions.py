"""The README tells the truth about the fields of completions."""

from openai.types.completion_create_params import CompletionCreateParamsBase

from server.api.completions.schema import MOST_ANSWERS, ONLY, WITHOUT_EFFECT, CompletionRequest
from tests.runtime.readme import README, row

TABLE = README.partition("| | `/v1/completions` |")[2].partition("\n\n")[0]


def test_the_table_lists_what_is_honoured_what_has_no_effect_and_what_is_refused() -> None:
    assert row("prompt and form", TABLE) | row("drawing", TABLE) == set(CompletionRequest.model_fields)
    assert row("no effect", TABLE) == WITHOUT_EFFECT
    assert row("refused by name", TABLE) == ONLY.keys()
    assert f"at most {MOST_ANSWERS} answers" in TABLE


def test_every_parameter_of_openais_api_is_in_the_table() -> None:
    theirs = {"stream", *CompletionCreateParamsBase.__annotations__}
    assert theirs <= CompletionRequest.model_fields.keys() | ONLY.keys() | WITHOUT_EFFECT
