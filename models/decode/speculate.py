"""One round: draft all blocks, verify all rows, draw one id a row; and what of it is kept.

Method: sample and match. The target draws an id at every row of a block, and drafts count for as long as they are what
it drew; so the text has the law of plain decoding, whatever was drafted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import mlx.core as mx
import numpy as np

from models.contract import LayerCache, Row, Speculator, Target
from models.decode.constraint import Block, Constraint, Masks
from models.decode.logprobs import score
from models.decode.processors import Past, Rows, processed
from models.decode.sampling import Noise, Pick, draw
from models.decode.session import Sampling, Tapped


@dataclass(frozen=True)
class Kept:
    """What one session keeps of its rows in a round."""

    ids: tuple[int, ...]
    """Emitted: the agreed drafts and the target's own next id, up to a stop id or the budget."""
    rows: int
    """Rows (the anchor's first) that stay in the target's caches."""
    agreed: int
    """Drafts that the target would have written itself, wherever the text was cut."""
    finish: Literal["stop", "length"] | None

    @property
    def accepted(self) -> int:
        """Emitted ids that had been drafted."""
        return min(self.agreed, len(self.ids))


def agreed(draft: Sequence[int], drawn: Sequence[int]) -> int:
    """How many drafted ids the target would have written itself."""
    return next((i for i, (d, t) in enumerate(zip(draft, drawn, strict=False)) if d != t), len(draft))


def keep(draft: Sequence[int], drawn: Sequence[int], stop_ids: frozenset[int], budget: int) -> Kept:
    """Decide on one block: `drawn` has one id more than `draft`, and `budget` ids may still be emitted.

    The row that drew the last kept id was fed the id before it, so as many rows stay as ids are drawn, and the stop
    id itself is never fed.
    """
    count = agreed(draft, drawn)
    written = drawn[: min(count + 1, budget)]
    stop = next((i for i, token in enumerate(written) if token in stop_ids), None)
    if stop is not None:
        return Kept(tuple(written[:stop]), stop + 1, count, "stop")
    return Kept(tuple(written), len(written), count, "length" if len(written) == budget else None)


@dataclass(frozen=True)
class Part:
    """One session's rows in a round: known ids, then drafts. Only the last known row and the drafts draw."""

    caches: Sequence[LayerCache]
    context: Sequence[LayerCache]
    sampling: Sampling
    position: int
    """Where the first row stands in the timeline."""
    ids: tuple[int, ...]
    """A chunk of the prompt, or the anchor; empty when `source` has it."""
    source: int | None = None
    """The anchor is this element of what the round before drew, not yet read."""
    drafts: int = 0
    past: Past | None = None
    """What its processors look back on; None without any."""
    constraint: Constraint | None = None
    """What its rows may draw; None also where what they draw is not looked at."""
    top_logprobs: int | None = None
    """Alternatives to report beside the log probability of each drawn id; None reports neither."""
    given: tuple[int, ...] = ()
    """The drafts where they are known; else the speculator draws them."""
    likeliest: bool = False
    """It draws its likeliest ids, whatever the noise."""

    @property
    def known(self) -> int:
        """Rows whose ids are not drafted."""
        return len(self.ids) if self.source is None else 1

    @property
    def rows(self) -> int:
        """Target rows."""
        return self.known + self.drafts

    @property
    def unknown(self) -> int:
        """Drafts that the speculator draws."""
        return 0 if self.given else self.drafts

    def picks(self) -> list[Pick]:
        """What its rows draw: the ids at the positions after the last known row and after each draft."""
        first, sampling = self.position + self.known, self.sampling
        return [Pick(sampling, position) for position in range(first, first + self.drafts + 1)]

    def processed(self, logits: mx.array, unread: mx.array) -> mx.array:
        """The logits of its first rows that draw, processed; `unread` are the ids after the last one in its past."""
        if self.past is None:
            return logits
        first = self.position + self.known - len(self.past.request.prompt)
        return processed(Rows(logits, self.past, first, unread, self.lead))

    @property
    def lead(self) -> int:
        """How many ids before the drafts its past does not know: the anchor, where it is not read."""
        return 0 if self.source is None else 1


@dataclass(frozen=True)
class Round:
    """One enqueued round; everything is lazy until `packed` is read."""

    drawn: mx.array
    """int32 [R]: the target's ids, drafts + 1 for each part in order."""
    packed: mx.array
    """int32 [D + O + R + S], the one thing the host reads.

    All drafts that were drawn; where a row is hot, what each had been with the noise instead of without, or the other
    way round; `drawn`; the scores.
    """
    drawn_from: int
    """D + O, where O is D or 0."""
    scored_from: int
    """D + O + R."""
    taps: tuple[mx.array, ...]


def run(
    target: Target,
    speculator: Speculator | None,
    parts: Sequence[Part],
    *,
    carried: mx.array | None,
    tapped: bool,
    masks: Masks | None = None,
) -> Round:
    """Enqueue one round of all parts; `carried` [R'] int32 is what the round before drew, for anchors not yet read.

    With `masks`, which parts with a constraint need, the ids are read while the target verifies them.
    """
    picks = [part.picks() for part in parts]
    wanted = [pick for part_picks in picks for pick in part_picks]
    noise = Noise.of(wanted, target.vocab_size)
    host = [token for part in parts for token in (*part.ids, *part.given)]
    pool = [mx.array(host, dtype=mx.int32)] if host else []
    pool += [] if carried is None else [carried]
    places = _places(parts, len(host), sum(array.size for array in pool))
    drafted: list[mx.array] = []
    if speculator is not None and any(part.unknown for part in parts):
        blocks = [block for block in zip(parts, places, picks, strict=True) if block[0].unknown]
        drafted = _draft(speculator, blocks, pool, noise)
        # The device drafts while the target's pass is still being written down.
        mx.async_eval(drafted)
        pool.append(drafted[0])
    ids = _gather(pool, [place for own in places for place in own])
    if masks is not None:
        mx.async_eval(ids)
    output = target(
        ids,
        _rows([(part.rows, part.caches) for part in parts]),
        taps=speculator.target_layer_ids if tapped and speculator is not None else (),
        logit_rows=_logit_rows(parts),
    )
    drawn = draw(_allowed(parts, _processed(parts, output.logits, ids), ids, masks), wanted, noise)
    packed = _joined([*drafted, drawn, *_scores(parts, output.logits, drawn)])
    drawn_from = sum(array.size for array in drafted)
    return Round(drawn, packed, drawn_from, drawn_from + drawn.size, output.taps)


def absorb(speculator: Speculator, waiting: Sequence[tuple[Sequence[LayerCache], Sequence[Tapped]]]) -> None:
    """Append the waiting rows of several sessions to their contexts, in one fused pass."""
    pieces = [piece for _, own in waiting for piece in own]
    layers = range(len(pieces[0].taps))
    taps = [_joined([_cut(piece.taps[layer], piece) for piece in pieces]) for layer in layers]
    rows = _rows([(sum(piece.rows for piece in own), context) for context, own in waiting])
    speculator.absorb(speculator.fuse(taps), rows)


def _draft(
    speculator: Speculator, blocks: Sequence[tuple[Part, list[int], list[Pick]]], pool: Sequence[mx.array], noise: Noise
) -> list[mx.array]:
    """The drafts, int32 [D], and where a row is hot what they had been otherwise.

    Each block is a part, where its ids lie in the pool, and what its rows draw.
    """
    anchors = _gather(pool, [places[0] for _, places, _ in blocks])
    logits = speculator.draft_block(anchors, _rows([(part.rows, part.context) for part, _, _ in blocks]))
    # A draft is drawn as its row will be, as far as that does not hang on the drafts before it.
    parts = [part for part, _, _ in blocks]
    unread = [anchors[place : place + part.lead] for place, part in enumerate(parts)]
    logits = _each(parts, [part.drafts for part in parts], logits, unread)
    wanted = [pick for _, _, picks in blocks for pick in picks[:-1]]
    drawn = draw(logits, wanted, noise)
    if all(pick.sampling.temperature == 0 for pick in wanted):
        return [drawn]
    likeliest = mx.argmax(logits, axis=-1).astype(mx.int32)
    bold = mx.array([part.likeliest for part in parts for _ in range(part.drafts)])
    return [mx.where(bold, likeliest, drawn), mx.where(bold, drawn, likeliest)]


def _places(parts: Sequence[Part], carried_from: int, drafted_from: int) -> list[list[int]]:
    """Where each part's ids lie in the pool of known, carried and drafted ids."""
    places, known, drafted = [], 0, drafted_from
    for part in parts:
        own = [] if part.source is None else [carried_from + part.source]
        host = range(known, known + len(part.ids) + len(part.given))
        known = host.stop
        places.append([*own, *host, *range(drafted, drafted + part.unknown)])
        drafted += part.unknown
    return places


def _processed(parts: Sequence[Part], logits: mx.array, ids: mx.array) -> mx.array:
    """The target's logits [R, vocabulary] as each part wants them, drafts counted as emitted; `ids` are all rows'."""
    stops = accumulate(part.rows for part in parts)
    unread = [ids[stop - part.drafts - part.lead : stop] for part, stop in zip(parts, stops, strict=True)]
    return _each(parts, [part.drafts + 1 for part in parts], logits, unread)


def _allowed(parts: Sequence[Part], logits: mx.array, ids: mx.array, masks: Masks | None) -> mx.array:
    """The logits [R, vocabulary] without the ids that constraints forbid after what `ids`, of all rows, say."""
    if masks is None:
        return logits
    mx.async_eval(logits)
    host = np.asarray(ids).tolist()
    stops = accumulate(part.rows for part in parts)
    blocks = [
        Block(part.constraint, host[stop - part.drafts - part.lead : stop], part.lead)
        for part, stop in zip(parts, stops, strict=True)
    ]
    return masks(logits, blocks)


def _each(parts: Sequence[Part], counts: Sequence[int], logits: mx.array, unread: Sequence[mx.array]) -> mx.array:
    """The rows of all parts, `counts` each, processed where a part asks for it."""
    if all(part.past is None for part in parts):
        return logits
    cuts = list(accumulate(counts, initial=0))
    own = [logits[start:stop] for start, stop in pairwise(cuts)]
    return _joined([part.processed(rows, ids) for part, rows, ids in zip(parts, own, unread, strict=True)])


def _scores(parts: Sequence[Part], logits: mx.array, drawn: mx.array) -> list[mx.array]:
    """What the parts that ask for log probabilities are told, int32 each."""
    cuts = list(accumulate((part.drafts + 1 for part in parts), initial=0))
    asked = [(part.top_logprobs, cut) for part, cut in zip(parts, pairwise(cuts), strict=True)]
    return [score(logits[start:stop], drawn[start:stop], top) for top, (start, stop) in asked if top is not None]


def _rows(spans: Sequence[tuple[int, Sequence[LayerCache]]]) -> list[Row]:
    rows, start = [], 0
    for count, caches in spans:
        rows.append(Row(start, start + count, caches))
        start += count
    return rows


def _logit_rows(parts: Sequence[Part]) -> mx.array | None:
    """The flat rows that draw, or None when all do."""
    if all(part.known == 1 for part in parts):
        return None
    wanted, start = [], 0
    for part in parts:
        wanted += range(start + part.known - 1, start + part.rows)
        start += part.rows
    return mx.array(wanted)


def _gather(pool: Sequence[mx.array], places: list[int]) -> mx.array:
    joined = _joined(pool)
    return joined if places == list(range(joined.size)) else joined[mx.array(places)]


def _joined(arrays: Sequence[mx.array]) -> mx.array:
    return arrays[0] if len(arrays) == 1 else mx.concatenate(list(arrays))


def _cut(tap: mx.array, piece: Tapped) -> mx.array:
    return tap if piece.rows == tap.shape[0] else tap[piece.start : piece.stop]
