"""How block verification differs from single steps on a loaded target: differences, flipped choices and their margins.

Method: the same ids are fed one by one and in blocks whose rejected tails are taken back, as decoding does; a kernel
for many rows may round in another way than the one for a single row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

import mlx.core as mx

from models.contract import LayerCache, Row, Target

CHUNK = 512
"""Prompt tokens in one pass, as the server reads them."""


@dataclass(frozen=True)
class Flip:
    """A position at which the block's likeliest token is another one than the single step's."""

    prompt: int
    position: int
    """In the timeline: that of the token whose logits these are."""
    margin: float
    """How far the single step's likeliest token was ahead of its second."""
    top: float
    """The single step's largest logit: it tells how coarse the numbers around it are."""


@dataclass(frozen=True)
class Difference:
    """What blocks of `rows` rows changed, over all prompts."""

    rows: int
    positions: int
    """Rows compared."""
    largest: float
    """Largest absolute difference of a logit; NaN where one is not a number."""
    flips: tuple[Flip, ...]
    closest: float
    """The smallest margin met: how near a tie the prompts came, flipped or not."""


class _Compared(NamedTuple):
    """One row against its single step."""

    difference: float
    flipped: bool
    margin: float
    top: float


def measure(
    target: Target,
    prompts: Sequence[Sequence[int]],
    widths: Sequence[int],
    *,
    tokens: int,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> list[Difference]:
    """Continue each prompt greedily one token at a time, then verify that text in blocks of every width.

    Args:
        target: evaluated, on the thread that loaded it.
        prompts: ids, none of them empty.
        widths: rows of a block, each at least 1.
        tokens: positions compared for each prompt and width.
        watch: called with the passes done and all of them, before every prompt and width.

    Returns:
        One entry for each width, in the order given.
    """
    total = len(prompts) * (len(widths) + 1)
    found: dict[int, list[tuple[int, int, _Compared]]] = {rows: [] for rows in widths}
    for index, prompt in enumerate(prompts):
        done = index * (len(widths) + 1)
        watch(done, total)
        caches = _read(target, prompt[:-1], slack=tokens + max(widths))
        fed, single = _chain(target, caches, prompt[-1], tokens)
        for step, rows in enumerate(widths, 1):
            watch(done + step, total)
            _take_back(caches, tokens)
            compared = _blocks(target, caches, fed, single, rows)
            found[rows] += [(index, len(prompt) + place, row) for place, row in enumerate(compared)]
        mx.clear_cache()
    watch(total, total)
    return [_difference(rows, found[rows]) for rows in widths]


def _read(target: Target, ids: Sequence[int], slack: int) -> list[LayerCache]:
    """Caches that have seen `ids` and can go back over all that follows."""
    caches = target.make_caches(slack)
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        _pass(target, caches, chunk, logit_rows=mx.array([len(chunk) - 1]))
    return caches


def _chain(target: Target, caches: list[LayerCache], first: int, tokens: int) -> tuple[list[int], mx.array]:
    """The ids fed one by one, and the float32 logits [tokens, vocabulary] that each of them gave."""
    fed, logits = [first], []
    for _ in range(tokens):
        logits.append(_pass(target, caches, fed[-1:]))
        likeliest = mx.argmax(logits[-1]).item()
        assert isinstance(likeliest, int)
        fed.append(likeliest)
    return fed[:tokens], mx.concatenate(logits)


def _blocks(
    target: Target, caches: list[LayerCache], fed: Sequence[int], single: mx.array, rows: int
) -> Iterator[_Compared]:
    """Feed `fed` in blocks of `rows` rows, of which 1, 2, 3 and so on are right; compare those, take the rest back."""
    start, right = 0, 0
    while start < len(fed):
        right = min(right % rows + 1, len(fed) - start)
        # Wrong on purpose: rows that go back must leave nothing behind.
        wrong = [place % target.vocab_size for place in range(rows - right)]
        logits = _pass(target, caches, [*fed[start : start + right], *wrong])
        yield from _rows(logits[:right], single[start : start + right])
        _take_back(caches, len(wrong))
        start += right


def _rows(block: mx.array, single: mx.array) -> Iterator[_Compared]:
    """Both float32 [R, vocabulary]."""
    best = mx.sort(mx.topk(single, 2), axis=-1)
    second, top = best[:, 0], best[:, 1]
    columns = (
        mx.max(mx.abs(block - single), axis=-1),
        mx.argmax(block, axis=-1) != mx.argmax(single, axis=-1),
        top - second,
        top,
    )
    yield from (_Compared(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def _pass(target: Target, caches: list[LayerCache], ids: Sequence[int], logit_rows: mx.array | None = None) -> mx.array:
    """One evaluated pass: float32 logits [R, vocabulary]."""
    output = target(mx.array(list(ids), dtype=mx.int32), [Row(0, len(ids), caches)], logit_rows=logit_rows)
    logits = output.logits.astype(mx.float32)
    mx.eval(logits, [array for cache in caches for array in cache.arrays])
    return logits


def _take_back(caches: Sequence[LayerCache], count: int) -> None:
    for cache in caches:
        cache.rollback(count)


def _difference(rows: int, found: Sequence[tuple[int, int, _Compared]]) -> Difference:
    differences = [row.difference for _, _, row in found]
    return Difference(
        rows=rows,
        positions=len(found),
        # `max` may pass over a NaN; a sum cannot.
        largest=nan if isnan(sum(differences)) else max(differences),
        flips=tuple(Flip(prompt, place, row.margin, row.top) for prompt, place, row in found if row.flipped),
        closest=min(row.margin for _, _, row in found),
    )
