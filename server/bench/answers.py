"""The built-in prompts, decoded by the server's own loop plainly, in the widest blocks, and as the controller likes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.decode.acceptance import Phase
from models.decode.batch import Batch
from models.decode.session import Request, Sampling, Speculation
from models.runtime import Runtime
from server.bench.prompts import Ask
from server.bench.tally import Block
from server.choices import phases
from tools.laguna import thinking_open

ARMS: tuple[Speculation, ...] = ("off", "always", "auto")


@dataclass(frozen=True)
class Answer:
    """One prompt in one way."""

    kind: str
    arm: Speculation
    prompt_tokens: int
    tokens: int
    seconds: float
    """From the first id to the last."""
    prefill_seconds: float
    blocks: tuple[Block, ...]
    plain_rounds: int


def requests(runtime: Runtime, asks: Sequence[Ask], tokens: int) -> list[tuple[str, Callable[[Speculation], Request]]]:
    """Each prompt's kind, and the request by how eagerly it drafts."""
    return [(ask.kind, _request(runtime, ask, tokens)) for ask in asks]


def _request(runtime: Runtime, ask: Ask, tokens: int) -> Callable[[Speculation], Request]:
    tokenizer = runtime.tokenizer
    options = {**runtime.default_chat_template_kwargs, "enable_thinking": ask.thinking}
    text = tokenizer.render(ask.messages, ask.tools or None, **options)
    prompt = tuple(tokenizer.encode(text))[-(runtime.context_length - tokens) :]
    first: Phase = "thinking" if thinking_open(text) else "answer"
    marks = phases(tokenizer)

    def request(speculation: Speculation) -> Request:
        return Request(prompt, Sampling(), tokens, tokenizer.eos_ids, speculation, phase=first, phases=marks)

    return request


def answered(batch: Batch, kind: str, request: Request) -> Answer:
    """Decode one request, alone in its batch, and note every block."""
    session, blocks, plain = batch.add(request), list[Block](), 0
    while session.finish is None:
        before, phase = session.stats, session.guesses.phase
        for update in batch.step():
            if update.error is not None:
                raise update.error
        after = session.stats
        drafted, rounds = after.drafted - before.drafted, after.rounds - before.rounds
        if drafted and session.finish is None:
            blocks.append(Block(kind, phase, drafted, after.accepted - before.accepted))
        plain += rounds if not drafted else 0
    stats = session.stats
    return Answer(
        kind=kind,
        arm=request.speculation,
        prompt_tokens=stats.prompt_tokens,
        tokens=stats.completion_tokens,
        seconds=stats.decode_seconds,
        prefill_seconds=stats.prefill_seconds,
        blocks=tuple(blocks),
        plain_rounds=plain,
    )


def read_beside(batch: Batch, request: Request, prompt: Sequence[int]) -> None:
    """Decode one request over and over while a prompt is read, so that it is learned how many rows of it a round bears.

    Raises:
        Exception: what either of them failed with.
    """
    once = Request(tuple(prompt), Sampling(), 1, frozenset(), "off")
    beside, reader = batch.add(request), None
    while reader is None or reader.finish is None:
        if beside.finish is not None:
            beside = batch.add(request)
        if reader is None and beside.emitted:
            reader = batch.add(once)
        for update in batch.step():
            if update.error is not None:
                raise update.error
    batch.cancel(beside)
