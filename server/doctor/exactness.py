"""Whether verifying a block gives what single steps give, on the loaded pair; and how to read the outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from threading import Event

from models.checkpoint import EMBEDDED, find_checkpoint
from models.config import TargetConfig
from models.decode.width import candidates
from models.device import default_device, on_own_thread
from models.exactness import Difference, Flip, measure
from models.runtime import Runtime, load_runtime
from models.tokenizer import Tokenizer
from server.doctor.finding import Finding, Unread
from server.loading import loading
from server.settings import Settings

WIDEST = 16
"""Rows of the widest block where there is no speculator to say."""
NEAR_TIE = {"float32": 2.0**-13, "bfloat16": 2.0**-5}
"""By dtype: margins up to this share of the logit are within what another order of additions may change."""
SHOWN = 4
"""Margins listed for a width."""

PASSAGES = """\
The ferry left at ten past seven, half empty, with two crates of oranges and a piano nobody had signed for.
def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
{"id": 4711, "tags": ["red", "north"], "price": 12.5, "sold": false, "note": null}
Explain in one sentence why ice floats, then list three rivers that flow into the Black Sea.
| port | ships | open |
|------|-------|------|
| Bergen | 31 | yes |
"""


class Halted(RuntimeError):
    """Nobody waits for the measurement any more."""


@dataclass(frozen=True)
class Probe:
    """What was measured, and on what."""

    dtype: str
    """What the networks compute in."""
    prompts: tuple[int, ...]
    """Their lengths in tokens."""
    differences: tuple[Difference, ...]


def probe(settings: Settings, tokens: int, watch: Callable[[int, int], None]) -> Probe:
    """Load a pair, compare single steps with blocks of every width that decoding may choose, and let it go.

    Args:
        settings: which pair, and how it is loaded; its speculator gives the widest block.
        tokens: positions compared for each prompt and width.
        watch: told of the passes done and all of them, on another thread.

    Raises:
        ValueError: what `load_runtime` refuses.
    """
    halted = Event()

    def watched(done: int, total: int) -> None:
        if halted.is_set():
            raise Halted
        watch(done, total)

    def work() -> Probe:
        runtime = load_runtime(settings.model, settings.speculator, loading(settings))
        return _measured(runtime, _window(settings.model), tokens, watched)

    try:
        return on_own_thread(work)
    finally:
        halted.set()


def _window(model: str | None) -> int:
    """Keys that the widest sliding layer sees; 0 where none slides."""
    config = TargetConfig.from_path(find_checkpoint(EMBEDDED if model is None else model))
    return max(attention.window or 0 for attention in config.attention)


def _measured(runtime: Runtime, window: int, tokens: int, watch: Callable[[int, int], None]) -> Probe:
    prompts = built_in(runtime.tokenizer, window, tokens, runtime.context_length)
    block = WIDEST if runtime.speculator is None else runtime.speculator.block_size
    differences = measure(runtime.target, prompts, candidates(block), tokens=tokens, watch=watch)
    return Probe(default_device().dtype, tuple(map(len, prompts)), tuple(differences))


def built_in(tokenizer: Tokenizer, window: int, tokens: int, context: int) -> list[list[int]]:
    """Prompts that stay inside the window, cross its edge while they go on, and begin past it.

    Args:
        tokenizer: the checkpoint's.
        window: keys that a sliding layer sees; 0 where none slides.
        tokens: how far each prompt will be continued.
        context: tokens that prompt and continuation may have together.
    """
    room = max(1, context - tokens)
    lengths = sorted({min(length, room) for length in (24, max(24, window - tokens // 2), 2 * window + 16)})
    text = PASSAGES
    ids = tokenizer.encode(tokenizer.render([{"role": "user", "content": text}]))
    while len(ids) < lengths[-1]:
        text += text
        ids = tokenizer.encode(tokenizer.render([{"role": "user", "content": text}]))
    return [ids[:length] for length in lengths]


def exactness_findings(facts: Probe | Unread) -> list[Finding]:
    """One for each width."""
    if isinstance(facts, Unread):
        return [Finding("exactness", "fail", f"could not be measured: {facts.why}", "see the findings above")]
    return [_width_finding(difference, facts.dtype) for difference in facts.differences]


def _width_finding(found: Difference, dtype: str) -> Finding:
    rows = "single steps again" if found.rows == 1 else f"blocks of {found.rows}"
    if isnan(found.largest):
        advice = "the weights or this device's kernels are broken: fetch the files again, or use another checkpoint"
        return Finding("exactness", "fail", f"{rows}: logits that are no numbers", advice)
    said = f"{rows}: {found.positions} positions, largest difference {found.largest:.3g}"
    if not found.flips:
        return Finding("exactness", "ok", f"{said}, no choice differs (closest margin {found.closest:.3g})")
    said = f"{said}, {len(found.flips)} choices differ at margins of {_margins(found.flips)}"
    if all(is_near_tie(flip, dtype) for flip in found.flips):
        advice = f"near ties in {dtype}: text may take another turn there; --speculation off decodes row by row"
        return Finding("exactness", "warn", said, advice)
    advice = f"more than {dtype} explains: serve with --speculation off, and report what --json prints"
    return Finding("exactness", "fail", said, advice)


def is_near_tie(flip: Flip, dtype: str) -> bool:
    """Whether rounding explains the flip."""
    return flip.margin <= NEAR_TIE[dtype] * abs(flip.top)


def _margins(flips: Sequence[Flip]) -> str:
    """The widest ones."""
    widest = sorted((flip.margin for flip in flips), reverse=True)
    return ", ".join(f"{margin:.3g}" for margin in widest[:SHOWN]) + (" and less" if len(widest) > SHOWN else "")
