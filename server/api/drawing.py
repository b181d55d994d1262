"""How to draw, in the fields that OpenAI's dialects share."""

import re
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from models.decode.request import REPETITION_RANGE
from server.api.wire import Array, Wire
from server.errors import InvalidValue
from server.turn import Speculation, Wishes


def _one_is_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


LONGEST_STOP = 1024
"""Characters in a stop string: each costs memory for as long as the answer is written."""

Stop = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Several = Annotated[list[Stop], Field(max_length=4)]
Stops = Annotated[
    Array[Stop], Field(max_length=4), BeforeValidator(_one_is_many, json_schema_input_type=Stop | Several)
]


_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,8}")


def _by_token_id(bias: dict[str, float]) -> dict[str, float]:
    for name in bias:
        if not _TOKEN_ID.fullmatch(name):
            raise PydanticCustomError("bias_key", "expected token ids as keys, each a string of digits")
    return bias


Bias = Annotated[float, Field(ge=-100, le=100)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
LOWEST_REPETITION, HIGHEST_REPETITION = REPETITION_RANGE
MOST_CHOICES = 8


class StreamOptions(Wire):
    """What else a stream should tell."""

    include_usage: bool | None = None


class Chances(Wire):
    """The honoured fields that say how a token is drawn; null and absent are alike."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31)
    """0 and -1 are off."""
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    speculation: Speculation | None = None
    """Ours: how eagerly to draft. The text is the same whatever it says."""

    @property
    def wishes(self) -> Wishes:
        """The same in no vendor's words."""
        return Wishes(
            temperature=self.temperature,
            top_k=None if self.top_k is None else max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
        )


class Drawing(Chances):
    """The honoured fields that say how to draw, how often, until when and in which form; null and absent are alike."""

    stop: Stops | None = None
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    logit_bias: Annotated[dict[str, Bias], AfterValidator(_by_token_id)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: float | None = Field(None, ge=LOWEST_REPETITION, le=HIGHEST_REPETITION)
    min_tokens: int | None = Field(None, ge=0)
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def wishes(self) -> Wishes:
        """The same in no vendor's words."""
        return replace(
            super().wishes,
            logit_bias={int(name): value for name, value in (self.logit_bias or {}).items() if value},
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=self.repetition_penalty or 1.0,
        )

    def check_bounds(self, budget: int | None) -> None:
        """Raises InvalidValue where fields are at odds with each other, or with a `budget` of tokens."""
        if budget is not None and (self.min_tokens or 0) > budget:
            raise InvalidValue(f"'min_tokens' must be at most the {budget} of 'max_tokens'.", param="min_tokens")
        if self.stream_options is not None and not self.stream:
            raise InvalidValue("'stream_options' is only allowed with 'stream': true.", param="stream_options")
