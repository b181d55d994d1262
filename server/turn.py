"""One request for an answer, in no vendor's dialect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tools.grammar import JsonAnswer

Speculation = Literal["auto", "always", "off"]


@dataclass(frozen=True)
class Wishes:
    """How to draw; None leaves it to the checkpoint (a seed to chance)."""

    temperature: float | None = None
    top_k: int | None = None
    """0 is off."""
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    """A signed 64-bit number."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """By token id."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True)
class Forced:
    """What an answer is held to. Nothing, unless something is said."""

    answer: JsonAnswer | None = None
    """It is JSON, unless it is a call."""
    called: bool = False
    """It is a call, or more; this comes before `answer`."""
    callable: frozenset[str] | None = None
    """The only tools that may be called, of those that are shown; None is all."""
    strict: frozenset[str] = frozenset()
    """Tools whose arguments are held to their schemas."""
    param: str = "response_format"
    """Where the request says what the answer is held to."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the request has the schema of each tool."""

    @property
    def held(self) -> bool:
        """Whether not just anything may be answered."""
        return self.answer is not None or self.called or bool(self.strict) or self.callable is not None


@dataclass(frozen=True)
class Plain:
    """A prompt without a conversation: no template writes it, and nothing but text is read in its answer."""

    prompt: str | tuple[int, ...]
    """Text, in which a special token may be spelt, or ids."""
    opened: bool = True
    """Text has the ids before it that the tokenizer opens every text with, unless it spells them itself."""
    scored: bool = False
    """The answer begins with the prompt, whose tokens are told as those of the answer are."""


@dataclass(frozen=True)
class Turn:
    """What the model is to answer, and within which bounds."""

    messages: tuple[Mapping[str, Any], ...] = ()
    """Role, content, tool_calls, tool_call_id and reasoning_content, as a chat template names them."""
    plain: Plain | None = None
    """What to go on from instead of messages."""
    place: str = "messages"
    """Where the request has either."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools that may be called in this turn; none when the client wants no call."""
    wishes: Wishes = Wishes()
    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    """At most so many tokens; None is up to the end of the context."""
    whole_budget: bool = False
    """A turn whose `max_tokens` do not fit into the context is refused; else it ends where the context does."""
    min_tokens: int = 0
    """The model does not end its turn before so many tokens."""
    thinking_budget: int | None = None
    """Thinking that the prompt opened ends after at most so many tokens."""
    choices: int = 1
    """So many answers to the one prompt, by seeds of their own."""
    top_logprobs: int | None = None
    """Say of every token of the content how likely it was, and so many likelier ones; None says nothing."""
    writers: bool = False
    """Say of every token who wrote it: the source of an accepted draft, or the target."""
    prediction: str = ""
    """What the answer is expected to say: it is drafted from, and changes nothing else."""
    one_call: bool = False
    """The turn ends with its first complete call."""
    forced: Forced = Forced()
    """What the answer is held to."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    speculation: Speculation | None = None

    @property
    def attributed(self) -> bool:
        """Whether something is to be said of single tokens."""
        return self.writers or self.top_logprobs is not None
