"""The embedded pair's vocabulary and template over networks that write what they are told: real rounds, known ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from models.contract import LayerCache, Output, Row
from models.runtime import Runtime, load_runtime
from tests.decode.scripted import History, history_of


@dataclass(frozen=True)
class Dictation:
    """Ids that follow the last id `after` of a text, the last of them for ever."""

    ids: Sequence[int]
    after: int
    vocab_size: int

    def logits(self, seen: mx.array, count: int) -> mx.array:
        """[count, vocabulary]: what follows each of the last `count` ids of `seen`, for sure."""
        places = np.flatnonzero(np.asarray(seen) == self.after)
        start = int(places[-1]) if places.size else seen.size
        nexts = [max(0, place - start) for place in range(seen.size - count, seen.size)]
        wanted = mx.array([self.ids[min(place, len(self.ids) - 1)] for place in nexts])
        return mx.where(mx.arange(self.vocab_size) == wanted[:, None], 30.0, 0.0)


@dataclass(frozen=True)
class DictatedTarget:
    """Writes the dictation, whatever else is written in between."""

    dictation: Dictation

    @property
    def vocab_size(self) -> int:
        return self.dictation.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        return [History(slack)]

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        said = []
        for row in rows:
            seen = history_of(row.caches[0]).append(ids[row.start : row.stop])
            said.append(self.dictation.logits(seen, row.stop - row.start))
        logits = mx.concatenate(said)
        return Output(logits if logit_rows is None else logits[logit_rows], tuple(ids[:, None] for _ in taps))


@dataclass(frozen=True)
class DictatedSpeculator:
    """Drafts the dictation."""

    dictation: Dictation
    block_size: int = 8
    target_layer_ids: tuple[int, ...] = (0,)

    def make_context(self) -> list[LayerCache]:
        return [History()]

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        return taps[0]

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        for row in rows:
            history_of(row.caches[0]).append(fused[row.start : row.stop, 0])

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        drafted = []
        for place, row in enumerate(rows):
            count = row.stop - row.start - 1
            known = mx.concatenate([history_of(row.caches[0]).held, anchors[place : place + 1]])
            padded = mx.concatenate([known, mx.zeros((count - 1,), dtype=mx.int32)])
            drafted.append(self.dictation.logits(padded, count))
        return mx.concatenate(drafted)


def dictated(text: str, after: str) -> Runtime:
    """A pair that writes `text`, and ends, after the last `after` of its prompt; call it on the engine's thread."""
    runtime = load_runtime(None, "none")
    opens = runtime.tokenizer.token_id(after)
    assert opens is not None
    ids = [*runtime.tokenizer.encode(text), min(runtime.tokenizer.eos_ids)]
    dictation = Dictation(ids, opens, runtime.target.vocab_size)
    networks = {"target": DictatedTarget(dictation), "speculator": DictatedSpeculator(dictation)}
    return replace(runtime, **networks, speculation_off=None)
