"""The first rounds of a fresh pair, before anybody waits for them: kernels are compiled and buffers made by running."""

import logging
from collections.abc import Sequence

from models.decode.batch import Update
from models.decode.request import Request, Sampling, Speculation
from models.progress import Progress, Report
from server.backend import Pair

log = logging.getLogger(__name__)

TEXT = "Hello"
TOKENS = 8
WAYS: tuple[Speculation, ...] = ("off", "always")
"""Single tokens and full blocks are different kernels."""


def warm(pair: Pair, chunk: int, report: Report) -> None:
    """Decode a few tokens each way, in a batch that is then dropped with all that it learned.

    A failure is logged and changes nothing: the requests to come will say what is wrong, by name.

    Args:
        pair: loaded; called on the thread that owns it.
        chunk: prompt tokens read in one round.
        report: told before each way, and at the end. What it raises ends the warming.
    """
    batch = pair.batch(prefill_chunk=chunk)
    prompt = tuple(pair.tokenizer.encode(TEXT))
    for done, way in enumerate(WAYS):
        report(Progress("warm-up", pair.model_id, done, len(WAYS)))
        request = Request(prompt, Sampling(), TOKENS, frozenset(pair.tokenizer.eos_ids), way, min_tokens=TOKENS)
        batch.add(request)
        while not _over(batch.step()):
            pass
    report(Progress("warm-up", pair.model_id, len(WAYS), len(WAYS)))


def _over(updates: Sequence[Update]) -> bool:
    for update in updates:
        if update.error is not None:
            log.warning("warming up failed", exc_info=update.error)
        if update.error is not None or update.finish is not None:
            return True
    return False
