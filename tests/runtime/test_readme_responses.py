"""The README tells the truth about the fields of responses."""

from openai.types.responses.response_create_params import ResponseCreateParamsBase

from server.api.responses.items import KINDS
from server.api.responses.parameters import ONLY, WITHOUT_EFFECT
from server.api.responses.schema import ResponsesRequest
from tests.runtime.readme import README, row

TABLE = README.partition("| | `/v1/responses` |")[2].partition("\n\n")[0]


def test_every_field_is_in_the_row_of_what_is_done_with_it() -> None:
    assert ResponsesRequest.model_fields.keys() <= row("conversation", TABLE) | row("answer", TABLE)
    assert KINDS.keys() <= row("conversation", TABLE)
    assert row("accepted, and without effect", TABLE) >= WITHOUT_EFFECT
    assert row("refused, but for their defaults", TABLE) >= ONLY.keys()
    rows = (ResponsesRequest.model_fields.keys(), WITHOUT_EFFECT, ONLY.keys())
    assert sum(map(len, rows)) == len(set().union(*rows))


def test_every_parameter_of_openais_api_is_honoured_refused_or_listed_as_without_effect() -> None:
    theirs = {"stream", *ResponseCreateParamsBase.__annotations__}
    assert theirs <= {*ResponsesRequest.model_fields, *WITHOUT_EFFECT, *ONLY}
