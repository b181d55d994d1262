"""What the engine needs of a loaded pair: the face of `models.runtime.Runtime`, which tests script."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from models.decode.batch import Update
from models.decode.constraint import Grammar
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Session
from models.decode.width import Table
from models.spelling import Rendered


class TextDecoder(Protocol):
    """Ids to whole characters, for one answer."""

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete."""
        ...

    def finish(self) -> str:
        """What is left of a character that was never completed."""
        ...


class Tokenizer(Protocol):
    """Messages to ids and back. It is used outside the engine's thread, so it holds no array."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a turn."""
        ...

    @property
    def vocab_size(self) -> int:
        """One more than the highest id that has a token."""
        ...

    @property
    def opening_ids(self) -> tuple[int, ...]:
        """What a text of its own begins with."""
        ...

    def render_marked(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> Rendered:
        """The prompt, up to where the assistant speaks, with what messages spell told apart from the template's own."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text, in which special tokens may be spelt."""
        ...

    def token_id(self, text: str) -> int | None:
        """The id of a token by its spelling, if there is one."""
        ...

    def bytes_of(self, id_: int) -> bytes:
        """What one token stands for; it may be part of a character."""
        ...

    def encode_at(self, prompt: Rendered, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Ids of a rendered prompt, and for each of some characters of its marked text how many ids come before it."""
        ...

    def decoder(self) -> TextDecoder:
        """A fresh decoder."""
        ...


class Grammars(Protocol):
    """Grammar text to what a session can follow; used from any thread."""

    def compile(self, text: str) -> Grammar:
        """Raises `GrammarError` where that cannot be done."""
        ...


class Batch(Protocol):
    """The decoding loop, one round at a time."""

    def add(self, request: Request) -> Session:
        """Take a request up; nothing runs yet."""
        ...

    def cancel(self, session: Session) -> None:
        """Drop a session before the next step."""
        ...

    def park(self, session: Session) -> None:
        """Let a session wait without caches."""
        ...

    def resume(self, session: Session) -> None:
        """Let a parked session go on."""
        ...

    def step(self) -> Sequence[Update]:
        """One round for every session."""
        ...

    @property
    def learned(self) -> Table:
        """What was measured so far, for another batch to start from."""
        ...


class SamplingDefaults(Protocol):
    """How to draw where a request does not say."""

    @property
    def temperature(self) -> float:
        """0 draws the most likely id."""
        ...

    @property
    def top_k(self) -> int:
        """0 is off."""
        ...

    @property
    def top_p(self) -> float:
        """1 is off."""
        ...

    @property
    def min_p(self) -> float:
        """0 is off."""
        ...


class Pair(Protocol):
    """Target, speculator and tokenizer, loaded."""

    @property
    def model_id(self) -> str:
        """The id in the model list."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back."""
        ...

    @property
    def grammars(self) -> Grammars | None:
        """What compiles grammars over its vocabulary, if anything does."""
        ...

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        ...

    @property
    def speculation_off(self) -> str | None:
        """Why there is no speculator; None when there is one."""
        ...

    @property
    def speculator_id(self) -> str | None:
        """What the speculator is called; None when there is none."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the pair, a sentence each."""
        ...

    @property
    def sampling_defaults(self) -> SamplingDefaults:
        """The checkpoint's own."""
        ...

    @property
    def default_chat_template_kwargs(self) -> Mapping[str, Any]:
        """What the template is told when a request says nothing."""
        ...

    @property
    def fingerprint(self) -> str:
        """A name for all that its numbers depend on."""
        ...

    @property
    def left(self) -> int:
        """Bytes of memory for conversations and what is kept of them."""
        ...

    def session_bytes(self, tokens: int) -> int:
        """The most that the caches of one conversation of so many tokens take, alone."""
        ...

    def beside_bytes(self, tokens: int) -> int:
        """The same of one among several."""
        ...

    def batch(self, *, prefill_chunk: int, prefix: PrefixStore | None = None, learned: Table | None = None) -> Batch:
        """An empty batch that resumes from `prefix`, leaves marks there, and goes on from what another `learned`."""
        ...
