"""The README tells the truth about the fields of Anthropic's messages."""

from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaParams
from anthropic.types.message_create_params import MessageCreateParamsBase as Params

from server.api.messages.parameters import ONLY, WITHOUT_EFFECT
from server.api.messages.schema import MessagesRequest
from tests.runtime.readme import row


def test_every_field_is_in_the_row_of_what_is_done_with_it() -> None:
    assert MessagesRequest.model_fields.keys() <= row("fields honoured")
    assert row("fields without effect") >= WITHOUT_EFFECT
    assert row("fields refused") >= ONLY.keys()
    rows = (MessagesRequest.model_fields.keys(), WITHOUT_EFFECT, ONLY.keys())
    assert sum(map(len, rows)) == len(set().union(*rows))


def test_every_parameter_of_anthropics_api_is_honoured_refused_or_listed_as_without_effect() -> None:
    theirs = {"stream", *Params.__annotations__, *BetaParams.__annotations__}
    assert theirs <= {*MessagesRequest.model_fields, *WITHOUT_EFFECT, *ONLY}
