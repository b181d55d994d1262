"""What a request wants of its logits before temperature: bias, penalties, ids that must wait, a bound on thinking.

Row i of a block is treated as if the drafts before it had been emitted: it counts only if they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from models.decode.request import Request, Sampling

FORBIDDEN = -1e9
"""A logit that is not drawn beside any other; finite, so that a grammar which leaves nothing else still gets it."""


@dataclass(frozen=True)
class Past:
    """One request's processors, and the tokens they look back on as far as the host knows them."""

    request: Request
    length: int
    """Tokens of the timeline that are taken in: the prompt's, then the answer's."""
    counts: mx.array
    """How often the answer has each id, float32 [vocabulary]; empty where nothing asks."""
    prompted: mx.array
    """Which ids the prompt has, bool [vocabulary]; empty where nothing asks."""
    bias: tuple[mx.array, mx.array] | None
    """Ids, int32, and what is added to their logits, float32: the request's, brought to the device once."""
    left: bool
    """The answer has an id that leaves thinking."""

    def after(self, tokens: Sequence[int]) -> "Past":
        """With more of the answer known."""
        if not tokens:
            return self
        thinking = self.request.thinking
        left = self.left or (thinking is not None and not set(thinking.left_by).isdisjoint(tokens))
        counts = self.counts.at[mx.array(list(tokens))].add(1.0) if self.counts.size else self.counts
        return replace(self, length=self.length + len(tokens), counts=counts, left=left)


def past_of(request: Request, vocab_size: int) -> Past | None:
    """What to start from, the prompt taken in; None for a request without any processor."""
    sampling, nothing = request.sampling, mx.zeros((0,))
    if not (sampling.logit_bias or _penalises(sampling) or request.min_tokens or request.thinking):
        return None
    counts = mx.zeros((vocab_size,)) if _penalises(sampling) else nothing
    prompted = nothing.astype(mx.bool_)
    if sampling.repetition_penalty != 1:
        prompted = mx.zeros((vocab_size,)).at[mx.array(list(request.prompt))].add(1.0) > 0
    ids, values = [id_ for id_, _ in sampling.logit_bias], [value for _, value in sampling.logit_bias]
    bias = (mx.array(ids, dtype=mx.int32), mx.array(values, dtype=mx.float32)) if ids else None
    return Past(request, len(request.prompt), counts, prompted, bias, left=False)


@dataclass(frozen=True)
class Rows:
    """The rows of one request in `logits`, and the ids between them and its past that only the device knows.

    Row i draws the answer's id number `first + i`, and looks back on the first `lead + i` of `unread` (int32 [E]).
    """

    logits: mx.array
    past: Past
    first: int
    unread: mx.array
    lead: int


def processed(rows: Rows) -> mx.array:
    """The rows' logits, [R, vocabulary] float32, in the order bias, penalties, minimum length, end of thinking."""
    request = rows.past.request
    logits = rows.logits.astype(mx.float32)
    if rows.past.bias is not None:
        ids, values = rows.past.bias
        logits = logits.at[:, ids].add(values)
    logits = _penalised(logits, rows, request.sampling)
    waits = min(max(request.min_tokens - rows.first, 0), logits.shape[0])
    if waits:
        logits = _joined([_unlike(logits[:waits], request.stop_ids), logits[waits:]])
    return _closed(logits, rows)


def _penalises(sampling: Sampling) -> bool:
    return bool(sampling.presence_penalty or sampling.frequency_penalty or sampling.repetition_penalty != 1)


def _penalised(logits: mx.array, rows: Rows, sampling: Sampling) -> mx.array:
    """All rows by the counts that the host knows; then, at the ids it does not know yet, each row by its own counts."""
    if not _penalises(sampling):
        return logits
    counts, prompted, unread = rows.past.counts, rows.past.prompted, rows.unread
    known = _with_counts(logits, counts, prompted, sampling)
    if not unread.size:
        return known
    ids = mx.broadcast_to(unread, (logits.shape[0], unread.size))
    before = mx.arange(unread.size) < rows.lead + mx.arange(logits.shape[0])[:, None]
    again = (unread[:, None] == unread).astype(mx.float32)
    own = counts[unread] + before.astype(mx.float32) @ again
    asked = prompted[unread] if prompted.size else prompted
    return mx.put_along_axis(
        known, ids, _with_counts(mx.take_along_axis(logits, ids, axis=-1), own, asked, sampling), axis=-1
    )


def _with_counts(logits: mx.array, counts: mx.array, prompted: mx.array, sampling: Sampling) -> mx.array:
    """Repetition after Keskar et al. 2019 (CTRL), over prompt and answer; presence and frequency over the answer."""
    said = counts > 0
    if sampling.repetition_penalty != 1:
        # Without a `where` over all rows, which the CPU backend takes ten times as long for.
        penalty = mx.where(prompted | said, sampling.repetition_penalty, 1.0)
        logits = mx.maximum(logits, 0) / penalty + mx.minimum(logits, 0) * penalty
    if sampling.frequency_penalty:
        logits = logits - sampling.frequency_penalty * counts
    return logits - sampling.presence_penalty * said if sampling.presence_penalty else logits


def _unlike(logits: mx.array, ids: frozenset[int]) -> mx.array:
    known = [id_ for id_ in sorted(ids) if id_ < logits.shape[1]]
    places = mx.broadcast_to(mx.array(known, dtype=mx.int32), (logits.shape[0], len(known)))
    return mx.put_along_axis(logits, places, mx.array(FORBIDDEN), axis=-1) if known else logits


def _closed(logits: mx.array, rows: Rows) -> mx.array:
    """The one row where a budget of thinking ends can only draw the end of thinking, unless it was left before."""
    thinking = rows.past.request.thinking
    row = -1 if thinking is None or rows.past.left else thinking.tokens - rows.first
    if thinking is None or not 0 <= row < logits.shape[0]:
        return logits
    left = mx.any(rows.unread[: rows.lead + row, None] == mx.array(thinking.left_by))
    allowed = left | (mx.arange(logits.shape[1]) == thinking.close_id)
    forced = mx.where(allowed, logits[row], FORBIDDEN)
    return _joined([logits[:row], forced[None], logits[row + 1 :]])


def _joined(parts: Sequence[mx.array]) -> mx.array:
    return mx.concatenate([part for part in parts if part.shape[0]])
