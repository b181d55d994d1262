"""A pair that answers from a script: real ids, real sessions, no arrays."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.decode.acceptance import Record, Source
from models.decode.batch import Update
from models.decode.constraint import Grammars
from models.decode.logprobs import Scored
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Session
from models.decode.width import Table
from models.messages import TemplateError, for_template
from models.spelling import Rendered
from models.tokenizer import TextDecoder

SPECIALS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<assistant>", "</assistant>")
EOS = 256 + len(SPECIALS)

Round = tuple[int, ...] | Exception
Script = Callable[[str], Iterable[Round]]
"""Prompt text to what each round brings: ids, or the exception that ends the session."""

_BYTES = {byte: bytes([byte]) for byte in range(256)} | {256 + i: text.encode() for i, text in enumerate(SPECIALS)}


def ids_of(text: str) -> tuple[int, ...]:
    """One id for each special token and for each other byte."""
    for index, special in enumerate(SPECIALS):
        before, found, after = text.partition(special)
        if found:
            return (*ids_of(before), 256 + index, *ids_of(after))
    return tuple(text.encode("utf-8", "replace"))


def text_of(ids: Iterable[int]) -> str:
    return TextDecoder(_BYTES).push(ids)


def says(text: str, *, block: int = 3) -> Script:
    """Write `text` whatever the prompt is, `block` ids a round."""
    ids = ids_of(text)
    return lambda _: [ids[start : start + block] for start in range(0, len(ids), block)]


def forever(prompt: str) -> Iterator[Round]:
    """Never end by itself."""
    while True:
        yield ids_of("ab ")


class ScriptTokenizer:
    """The smallest vocabulary and template that show what the real ones do."""

    eos_ids = frozenset({EOS})
    vocab_size = EOS + 1
    opening_ids: tuple[int, ...] = ()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> str:
        if template_kwargs.get("refuse"):
            raise TemplateError("this template does not want to")
        shown = [f"<{message['role']}>{_shown(message)}" for message in for_template(messages)]
        declared = [f"tool {tool['function']['name']}" for tool in tools or ()]
        opener = "<think>" if template_kwargs.get("enable_thinking") else ""
        return "\n".join([*declared, *shown, f"<assistant>{opener}"])

    def render_marked(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> Rendered:
        return Rendered(self.render(messages, tools, **template_kwargs))

    def encode(self, text: str) -> list[int]:
        return list(ids_of(text))

    def token_id(self, text: str) -> int | None:
        return 256 + SPECIALS.index(text) if text in SPECIALS else None

    def bytes_of(self, id_: int) -> bytes:
        return _BYTES.get(id_, b"")

    def encode_at(self, prompt: Rendered, places: Sequence[int]) -> tuple[list[int], list[int]]:
        return self.encode(prompt.text), [len(ids_of(prompt.text[:place])) for place in places]

    def decoder(self) -> TextDecoder:
        return TextDecoder(_BYTES)


def _shown(message: Mapping[str, Any]) -> str:
    calls = [
        f"<tool_call>{call['function']['name']} {call['function']['arguments']}"
        for call in message.get("tool_calls", ())
    ]
    return "".join([message.get("reasoning_content", ""), message["content"], *calls])


@dataclass(frozen=True)
class Drawing:
    """Sampling defaults of the script's checkpoint."""

    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.95
    min_p: float = 0.0


@dataclass
class ScriptPair:
    """Loads at once (or fails to), and hands out batches that follow `script`."""

    script: Script
    model_id: str = "poolside/Laguna-Script"
    context_length: int = 4096
    speculation_off: str | None = None
    grammars: Grammars | None = None
    speculator_id: str | None = None
    warnings: tuple[str, ...] = ()
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    """Rounds wait for it; set from the start."""
    pace: float = 0.0
    """Seconds a round takes."""
    drafter: Source | None = None
    """Who drafts all ids of a round but its last."""
    broken_rounds: int = 0
    """So many rounds raise, for all sessions together, before the first one works."""
    requests: list[Request] = field(default_factory=list)
    """Everything that was started, in order."""
    sessions: int = 0
    """Sessions that hold a place in the batch now."""
    most_sessions: int = 0
    parked: int = 0
    """How often one was told to wait."""
    tokenizer: ScriptTokenizer = field(default_factory=ScriptTokenizer)
    sampling_defaults: Drawing = field(default_factory=Drawing)

    fingerprint: str = "script"
    left: int = 1 << 24
    bytes_a_token: int = 1

    def __post_init__(self) -> None:
        self.gate.set()

    def batch(
        self, *, prefill_chunk: int, prefix: PrefixStore | None = None, learned: Table | None = None
    ) -> "ScriptBatch":
        self.sessions = 0
        return ScriptBatch(self, learned)

    def session_bytes(self, tokens: int) -> int:
        return tokens * self.bytes_a_token

    def beside_bytes(self, tokens: int) -> int:
        return tokens * self.bytes_a_token

    @property
    def prompts(self) -> list[str]:
        """The rendered prompts of everything that was started."""
        return [text_of(request.prompt) for request in self.requests]


class ScriptBatch:
    """One round of every session's script at a time."""

    def __init__(self, pair: ScriptPair, learned: Table | None = None) -> None:
        self._pair = pair
        self.learned = Table((1,)) if learned is None else learned
        self._running: dict[Session, Iterator[Round]] = {}
        self._parked: dict[Session, Iterator[Round]] = {}

    def add(self, request: Request) -> Session:
        session = Session(request, record=Record(), speculation_off="a script drafts nothing")
        self._pair.requests.append(request)
        self._running[session] = iter(self._pair.script(text_of(request.prompt)))
        self._count()
        return session

    def cancel(self, session: Session) -> None:
        self._running.pop(session, None)
        self._parked.pop(session, None)
        self._count()

    def park(self, session: Session) -> None:
        self._parked[session] = self._running.pop(session)
        self._pair.parked += 1
        self._count()

    def resume(self, session: Session) -> None:
        self._running[session] = self._parked.pop(session)
        self._count()

    def step(self) -> list[Update]:
        time.sleep(self._pair.pace)
        assert self._pair.gate.wait(30), "the test never opened the gate"
        if self._pair.broken_rounds:
            self._pair.broken_rounds -= 1
            raise RuntimeError("the whole round failed in /secret/path")
        brought = [(session, next(rounds, None)) for session, rounds in self._running.items()]
        updates = [_update(session, each, self._pair.drafter) for session, each in brought]
        for update in updates:
            if update.finish is not None or update.error is not None:
                del self._running[update.session]
        self._count()
        return updates

    def _count(self) -> None:
        self._pair.sessions = len(self._running)
        self._pair.most_sessions = max(self._pair.most_sessions, self._pair.sessions)


def _update(session: Session, brought: Round | None, drafter: Source | None) -> Update:
    session.tally.rounds += 1
    if isinstance(brought, Exception):
        return Update(session, error=brought)
    left = session.request.max_tokens - len(session.emitted)
    prompt = None if session.emitted else _prompt_scores(session.request)
    ids = () if brought is None else brought[:left]
    session.emitted += ids
    session.guesses.emitted(ids)
    if brought is None:
        return Update(session, finish="stop", prompt=prompt)
    accepted = len(ids) - 1 if drafter is not None else 0
    if drafter is not None:
        session.tally.block(drafter, len(ids), accepted)
    end, scores = "length" if len(ids) == left else None, _scores(session.request.top_logprobs, ids)
    return Update(session, ids, end, scores=scores, prompt=prompt, source=drafter, accepted=accepted)


def _prompt_scores(request: Request) -> tuple[Scored, ...] | None:
    return None if request.prompt_logprobs is None else _scores(request.prompt_logprobs, request.prompt[1:])


def _scores(top: int | None, ids: Sequence[int]) -> tuple[Scored, ...]:
    """Each id is as likely as its number says, and the likeliest instead of it are those that follow it."""
    if top is None:
        return ()
    beside = range(top)
    return tuple(Scored(-id_ / 64, tuple(((id_ + step) % EOS, -step / 8) for step in beside)) for id_ in ids)
