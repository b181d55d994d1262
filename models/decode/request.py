"""What a client may ask of the decoding loop, as frozen values that check themselves."""

import math
from dataclasses import dataclass
from typing import Literal

from models.decode.acceptance import Phase
from models.decode.constraint import Grammar

Speculation = Literal["auto", "always", "off"]

SEED_RANGE = (-(2**63), 2**63 - 1)
REPETITION_RANGE = (0.1, 10.0)
MOST_LOGPROBS = 20


class InvalidRequest(ValueError):
    """A request that cannot be decoded: the message names the field, its value and what would do."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        super().__init__(f"{field} is {value!r}, but it must be {wanted}")
        self.field = field


class EmptyPrompt(InvalidRequest):
    """There is no token to start from."""

    def __init__(self) -> None:
        super().__init__("prompt", (), "at least one token")


@dataclass(frozen=True)
class Sampling:
    """How a request's ids are drawn. Filters apply in the order temperature, top-k, top-p, min-p.

    Raises:
        InvalidRequest: a value is out of its range.
    """

    temperature: float = 0.0
    """0 draws the most likely id; above it, logits are divided by it."""
    top_k: int = 0
    """Only the k most likely ids stay; 0 is off."""
    top_p: float = 1.0
    """Only the smallest set of ids whose probability reaches p stays; 1 is off."""
    min_p: float = 0.0
    """Only ids at least this fraction as likely as the best stay; 0 is off."""
    seed: int = 0
    """A signed 64-bit number; with the position of a token it is all its randomness."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """What is added to the logits of ids, each named once."""
    presence_penalty: float = 0.0
    """Taken from the logits of ids that the answer has."""
    frequency_penalty: float = 0.0
    """Taken from an id's logit once for each time that the answer has it."""
    repetition_penalty: float = 1.0
    """Divides positive logits (multiplies negative ones) of ids that the prompt or the answer has; 1 is off."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InvalidRequest("temperature", self.temperature, "a finite number of at least 0")
        if self.top_k < 0:
            raise InvalidRequest("top_k", self.top_k, "at least 0 (0 is off)")
        if not 0 <= self.top_p <= 1:
            raise InvalidRequest("top_p", self.top_p, "between 0 and 1 (1 is off)")
        if not 0 <= self.min_p <= 1:
            raise InvalidRequest("min_p", self.min_p, "between 0 and 1 (0 is off)")
        if not SEED_RANGE[0] <= self.seed <= SEED_RANGE[1]:
            raise InvalidRequest("seed", self.seed, "a signed 64-bit integer")
        self._check_processors()

    def _check_processors(self) -> None:
        for name, value in (("presence", self.presence_penalty), ("frequency", self.frequency_penalty)):
            if not -2 <= value <= 2:
                raise InvalidRequest(f"{name}_penalty", value, "between -2 and 2 (0 is off)")
        low, high = REPETITION_RANGE
        if not low <= self.repetition_penalty <= high:
            raise InvalidRequest("repetition_penalty", self.repetition_penalty, f"between {low} and {high} (1 is off)")
        for id_, value in self.logit_bias:
            if not -100 <= value <= 100:
                raise InvalidRequest(f"logit_bias[{id_}]", value, "between -100 and 100")
        if len(dict(self.logit_bias)) != len(self.logit_bias):
            raise InvalidRequest("logit_bias", self.logit_bias, "a map that names each id once")


@dataclass(frozen=True)
class ThinkingBudget:
    """An answer that begins inside thinking: its id number `tokens` ends that, unless thinking was left before."""

    tokens: int
    close_id: int
    leaving_ids: frozenset[int] = frozenset()
    """Other ids that leave thinking, such as the one that opens a call: nothing is forced into what they begin."""

    def __post_init__(self) -> None:
        if self.tokens < 0:
            raise InvalidRequest("thinking", self.tokens, "a budget of at least 0 tokens")

    @property
    def left_by(self) -> list[int]:
        """All ids after which nothing is forced."""
        return sorted({self.close_id, *self.leaving_ids})


@dataclass(frozen=True)
class Request:
    """What one session is to decode.

    Raises:
        EmptyPrompt: the prompt has no token.
        InvalidRequest: a value is out of its range.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    """How many ids may be emitted; a stop id is not emitted and not counted."""
    stop_ids: frozenset[int]
    speculation: Speculation = "auto"
    min_tokens: int = 0
    """No stop id is drawn before so many ids are emitted."""
    thinking: ThinkingBudget | None = None
    grammar: Grammar | None = None
    """What the answer must follow; a stop id is drawn only where the grammar may end."""
    top_logprobs: int | None = None
    """Report each emitted id's log probability, and those of so many likeliest ids at its place; None is neither."""
    prompt_logprobs: int | None = None
    """Report how likely each prompt token after the first was, and so many likeliest ids at its place; None: not."""
    marks: tuple[int, ...] = ()
    """Where in the prompt a later one may part from it: the places worth keeping, in tokens, each inside the prompt."""
    prediction: tuple[int, ...] = ()
    """What the answer is expected to say, to draft from; it changes no text."""
    phase: Phase = "answer"
    """What the first emitted id belongs to."""
    phases: tuple[tuple[int, Phase], ...] = ()
    """The ids that begin another phase, and which; how many drafts are accepted is learned apart for each."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise EmptyPrompt
        if not all(0 < mark < len(self.prompt) for mark in self.marks):
            raise InvalidRequest("marks", self.marks, f"places between 0 and {len(self.prompt)}")
        if self.max_tokens < 1:
            raise InvalidRequest("max_tokens", self.max_tokens, "at least 1")
        if not 0 <= self.min_tokens <= self.max_tokens:
            raise InvalidRequest("min_tokens", self.min_tokens, f"between 0 and max_tokens, {self.max_tokens}")
        for name, top in (("top_logprobs", self.top_logprobs), ("prompt_logprobs", self.prompt_logprobs)):
            if top is not None and not 0 <= top <= MOST_LOGPROBS:
                raise InvalidRequest(name, top, f"between 0 and {MOST_LOGPROBS}")
