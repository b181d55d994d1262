"""A target and speculators read off tables: what they say depends on all that their caches hold, and is exact."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from models.contract import LayerCache, Output, Row, Rows, copied
from models.decode.batch import Batch, Update
from models.decode.sampling import Noise, Pick, draw
from models.decode.session import Request, Sampling, Session, Speculation

VOCAB = 61
STATES = 997
BLOCK = 8
SILENT = VOCAB - 1
"""An id that no target says."""

Says = Callable[[mx.array, mx.array, int], mx.array]


class CacheSpent(RuntimeError):
    pass


class History:
    """A cache that holds the rows it was given."""

    def __init__(self, slack: int = 0, torn_by: int | None = None) -> None:
        self.held = mx.zeros((0,), dtype=mx.int32)
        self._slack, self._torn_by = slack, torn_by

    @property
    def offset(self) -> int:
        return self.held.size

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        return (self.held,)

    def rollback(self, n: int) -> None:
        if n > self._slack or (self._torn_by is not None and bool(mx.any(self.held == self._torn_by))):
            raise CacheSpent(n)
        self.held = self.held[: self.held.size - n]

    def snapshot(self, start: int, stop: int) -> Rows:
        if not 0 <= start <= stop <= self.offset:
            raise CacheSpent(stop)
        return Rows(start, stop, (copied(self.held[:, None], start, stop),), whole=True)

    def restore(self, parts: Sequence[Rows]) -> None:
        assert self.offset == 0
        self.held = mx.concatenate([part.arrays[0][:, 0] for part in parts])

    def append(self, tokens: mx.array) -> mx.array:
        self.held = mx.concatenate([self.held, tokens])
        return self.held


def history_of(cache: LayerCache) -> History:
    assert isinstance(cache, History)
    return cache


def states(tokens: mx.array, remembered: int | None = None) -> mx.array:
    """A number for each prefix, which every token and every position of it moves; or its latest few tokens alone."""
    if remembered is not None:
        padded = mx.concatenate([mx.zeros((remembered,), dtype=mx.int32), tokens])
        latest = [padded[place : place + tokens.size] * (7 * place + 3) for place in range(1, remembered + 1)]
        return mx.sum(mx.stack(latest), axis=0) % STATES
    weights = mx.arange(3, 3 + tokens.size) * 7 % 101 + 1
    return mx.cumsum((tokens + 1) * weights) % STATES


class ScriptedTarget:
    """Its logits are rows of a fixed random table, picked by the whole history.

    One that remembers a few tokens only repeats itself before long.
    """

    def __init__(
        self,
        *,
        stop_every: int | None = None,
        fails_on: int | None = None,
        torn_by: int | None = None,
        most_rows: int = 99,
        remembered: int | None = None,
    ) -> None:
        table = np.random.default_rng(5).normal(size=(STATES, VOCAB)) * 3
        table[:, SILENT] = -30
        if stop_every is not None:
            table[::stop_every, 0] += 30
        self.table = mx.array(table.astype(np.float32))
        self.passes: list[tuple[int, int]] = []
        self.caches: list[History] = []
        self.remembered = remembered
        self._fails_on, self._torn_by, self._most_rows = fails_on, torn_by, most_rows

    @property
    def vocab_size(self) -> int:
        return VOCAB

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        self.caches.append(History(slack, self._torn_by))
        return [self.caches[-1]]

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        self.passes.append((len(rows), ids.size))
        if self._fails_on is not None and bool(mx.any(ids == self._fails_on)):
            raise RuntimeError(f"token {self._fails_on} is poison")
        if len(rows) > self._most_rows:
            raise RuntimeError(f"{len(rows)} rows are too many")
        picked = []
        for row in rows:
            seen = history_of(row.caches[0]).append(ids[row.start : row.stop])
            picked.append(states(seen, self.remembered)[seen.size - (row.stop - row.start) :])
        flat = mx.concatenate(picked)
        logits = self.table[flat if logit_rows is None else flat[logit_rows]]
        return Output(logits, tuple(ids[:, None] for _ in taps))


class ScriptedSpeculator:
    """Drafts what `says(history with anchor, depth)` makes of the true distributions: right, wrong, or nearly so."""

    def __init__(self, target: ScriptedTarget, says: Says, block_size: int = BLOCK) -> None:
        self._target, self._says, self._block_size = target, says, block_size
        self.contexts: list[History] = []
        self.blocks: list[tuple[int, ...]] = []

    @property
    def block_size(self) -> int:
        return self._block_size

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        return (0, 2)

    def make_context(self) -> list[LayerCache]:
        self.contexts.append(History())
        return [self.contexts[-1]]

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        assert mx.array_equal(taps[0], taps[1])
        return taps[0]

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        assert rows[-1].stop == fused.shape[0]
        for row in rows:
            history_of(row.caches[0]).append(fused[row.start : row.stop, 0])

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        self.blocks.append(tuple(row.stop - row.start for row in rows))
        logits = []
        for place, row in enumerate(rows):
            seen = mx.concatenate([history_of(row.caches[0]).held, anchors[place : place + 1]])
            for depth in range(row.stop - row.start - 1):
                true = self._target.table[states(seen, self._target.remembered)[-1:]]
                said = self._says(true, seen, depth)
                logits.append(said)
                # Greedy chains only: a sampled drafter cannot know what it will draw.
                seen = mx.concatenate([seen, mx.argmax(said, axis=-1).astype(mx.int32)])
        return mx.concatenate(logits)


def right(true: mx.array, seen: mx.array, depth: int) -> mx.array:
    return true


def wrong(true: mx.array, seen: mx.array, depth: int) -> mx.array:
    return -true


def right_to(limit: int) -> Says:
    return lambda true, seen, depth: true if depth < limit else -true


def by_turns(true: mx.array, seen: mx.array, depth: int) -> mx.array:
    return true if (seen.size - depth) % 2 else -true


def blurred(true: mx.array, seen: mx.array, depth: int) -> mx.array:
    noise = mx.random.normal(true.shape, key=mx.random.key(seen.size + 1000 * depth))
    return true + 0.8 * noise


def asked(
    prompt: Sequence[int] = (3, 1, 4, 1, 5, 9, 2, 6),
    *,
    sampling: Sampling | None = None,
    max_tokens: int = 40,
    stop_ids: Sequence[int] = (),
    speculation: Speculation = "always",
    prediction: Sequence[int] = (),
) -> Request:
    limits = max_tokens, frozenset(stop_ids)
    return Request(tuple(prompt), sampling or Sampling(), *limits, speculation, prediction=tuple(prediction))


def run_all(batch: Batch, limit: int = 2000) -> dict[Session, list[Update]]:
    """Step until nothing runs; everything each session got."""
    got: dict[Session, list[Update]] = {session: [] for session in batch.sessions}
    for _ in range(limit):
        if not batch.sessions:
            return got
        for update in batch.step():
            got.setdefault(update.session, []).append(update)
    raise AssertionError(f"still running after {limit} steps")


def ids_of(packed: mx.array) -> list[int]:
    return [int(token) for token in np.asarray(packed)]


def text(updates: Sequence[Update]) -> list[int]:
    return [token for update in updates for token in update.ids]


def decode(batch: Batch, request: Request) -> list[int]:
    session = batch.add(request)
    return text(run_all(batch)[session])


def plainly(request: Request, target: ScriptedTarget | None = None) -> list[int]:
    """The text as the plainest possible loop writes it: one whole prefix at a time."""
    target = target or ScriptedTarget()
    tokens = list(request.prompt)
    while len(tokens) < len(request.prompt) + request.max_tokens:
        state = states(mx.array(tokens, dtype=mx.int32), target.remembered)[-1:]
        picks = [Pick(request.sampling, len(tokens))]
        drawn = draw(target.table[state], picks, Noise.of(picks, VOCAB))
        if int(drawn[0]) in request.stop_ids:
            break
        tokens.append(int(drawn[0]))
    return tokens[len(request.prompt) :]


def own_logprobs(prompt: list[int], answer: list[int]) -> np.ndarray:
    """[len(answer), vocabulary]: the log of the softmax over each prefix of the text."""
    rows = np.array(states(mx.array(prompt + answer, dtype=mx.int32)))[len(prompt) - 1 : -1]
    logits = np.array(ScriptedTarget().table)[rows].astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))
