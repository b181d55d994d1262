"""Text in parts, as OpenAI's dialects send it."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, field_validator, model_validator
from pydantic_core import PydanticCustomError

from server.api.wire import Array, Wire, quoted

TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})
"""Kinds of content part that are text; a text model can be shown no other."""


class Part(Wire):
    """One part of a message's content; whatever else clients put into it is not looked at."""

    type: str
    text: str | None = None
    refusal: str | None = None

    @field_validator("type")
    @classmethod
    def _is_text(cls, kind: str) -> str:
        if kind not in TEXT_PARTS:
            told = "Invalid content type. {kind} is only supported by certain models"
            raise PydanticCustomError("content_kind", told, {"kind": quoted(kind)})
        return kind

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.text is None and self.refusal is None:
            raise PydanticCustomError("no_text", "expected a part with its text")
        return self

    @property
    def shown(self) -> str:
        """What the model reads."""
        return self.text or self.refusal or ""


def _parts(content: object) -> object:
    match content:
        case str():
            return [{"type": "text", "text": content}]
        case None | list():
            return content
    raise PydanticCustomError("content_type", "expected a string or an array of text parts")


Text = Annotated[Array[Part] | None, BeforeValidator(_parts, json_schema_input_type=str | list[Part] | None)]


def text_of(parts: Sequence[Part] | None) -> str:
    """What the parts say together."""
    return "".join(part.shown for part in parts or ())
