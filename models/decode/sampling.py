"""Logits to ids: filters row by row, and one random key for each position of a request.

Method: the Gumbel maximum. The largest of logits over the temperature with Gumbel noise on them has the law of a draw
from their softmax, and the same noise at the same position gives the same id, whoever asks for it and how often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import mlx.core as mx

from models.decode.session import Sampling

WORD = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


class Pick(NamedTuple):
    """One id to draw: how, and at which position of its request's timeline (the first prompt token is 0)."""

    sampling: Sampling
    position: int


def position_key(seed: int, position: int) -> tuple[int, int]:
    """The two 32-bit words of the key for one position: SplitMix64 (Steele, Lea, Flood 2014), jumped to the position.

    For one seed, distinct positions have distinct keys, since the mix is a bijection.
    """
    word = _mix(_mix(seed & WORD) + position * STEP & WORD)
    return word >> 32, word & 0xFFFFFFFF


def seed_of_choice(seed: int, choice: int) -> int:
    """The seed of one of several answers to the same prompt: the first has `seed` itself, the others one mixed from it.

    The same for the same pair of numbers, whatever else is asked for.
    """
    if choice == 0:
        return seed
    word = _mix(_mix(seed & WORD) ^ _mix(choice * STEP & WORD))
    return word - (1 << 64) if word >> 63 else word


@dataclass(frozen=True)
class Noise:
    """The Gumbel noise of one round: a row [vocabulary], float32, indexed by token id, for each key in use."""

    rows: mx.array | None
    places: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, picks: Sequence[Pick], vocab_size: int) -> Self:
        """Noise for all picks at once; greedy ones need none."""
        keys = dict.fromkeys((p.sampling.seed, p.position) for p in picks if p.sampling.temperature > 0)
        if not keys:
            return cls(None, {})
        words = mx.array([position_key(*key) for key in keys], dtype=mx.uint32)
        rows = mx.vmap(lambda key: mx.random.gumbel((vocab_size,), key=key))(words)
        return cls(rows, {key: place for place, key in enumerate(keys)})

    def at(self, picks: Sequence[Pick]) -> mx.array:
        """The rows of these picks, [len(picks), vocabulary]; the same for a draft and its verification."""
        assert self.rows is not None, "noise was made for greedy picks only"
        places = [self.places[p.sampling.seed, p.position] for p in picks]
        return self.rows if places == list(range(self.rows.shape[0])) else self.rows[mx.array(places)]


class Kind(NamedTuple):
    """Rows that one set of operations can draw, whoever stands beside them."""

    greedy: bool
    top_k: int
    nucleus: bool
    floor: bool


def draw(logits: mx.array, picks: Sequence[Pick], noise: Noise) -> mx.array:
    """One id for each row, int32 [R]: `argmax(filtered logits + temperature * noise)`, greedily without the noise.

    `logits` [R, vocabulary] come as the request wants them before temperature: what depends on its history (bias,
    penalties, grammar masks) is done by then. A row's id depends on its own logits and pick alone.
    """
    first = picks[0].sampling
    if all(pick.sampling is first for pick in picks):
        return _choose(_kind(first, logits.shape[-1]), logits, picks, noise)
    # Rows of one request share what it asked for, which is looked at once.
    asked = {id(pick.sampling): pick.sampling for pick in picks}
    kinds = {key: _kind(sampling, logits.shape[-1]) for key, sampling in asked.items()}
    if len(set(kinds.values())) == 1:
        return _choose(next(iter(kinds.values())), logits, picks, noise)
    groups: dict[Kind, list[int]] = {}
    for row, pick in enumerate(picks):
        groups.setdefault(kinds[id(pick.sampling)], []).append(row)
    order = [row for rows in groups.values() for row in rows]
    parts = [_choose(kind, logits[mx.array(rows)], [picks[r] for r in rows], noise) for kind, rows in groups.items()]
    places = sorted(range(len(order)), key=order.__getitem__)
    return mx.concatenate(parts)[mx.array(places)]


def _mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def _kind(sampling: Sampling, vocab_size: int) -> Kind:
    if sampling.temperature == 0:
        return Kind(greedy=True, top_k=0, nucleus=False, floor=False)
    top_k = sampling.top_k if sampling.top_k < vocab_size else 0
    return Kind(greedy=False, top_k=top_k, nucleus=sampling.top_p < 1, floor=sampling.min_p > 0)


def _choose(kind: Kind, logits: mx.array, picks: Sequence[Pick], noise: Noise) -> mx.array:
    if kind.greedy:
        return mx.argmax(logits, axis=-1).astype(mx.int32)
    logits = logits.astype(mx.float32)
    temperature = mx.array([[p.sampling.temperature] for p in picks])
    lowest = _lowest_kept(kind, logits, picks, temperature)
    kept = logits if lowest is None else mx.where(logits >= lowest, logits, -mx.inf)
    # Scaling the noise instead of the logits keeps the argmax and cannot overflow when it is nearly cold.
    return mx.argmax(kept + temperature * noise.at(picks), axis=-1).astype(mx.int32)


def _lowest_kept(kind: Kind, logits: mx.array, picks: Sequence[Pick], temperature: mx.array) -> mx.array | None:
    """The smallest logit that passes every filter, [R, 1]; ids that tie with it pass too."""
    lowest = None
    if kind.top_k or kind.nucleus:
        # The survivors of top-k are as many for every row of a kind, so that sums do not depend on the company.
        ranked = mx.sort(mx.topk(logits, kind.top_k) if kind.top_k else logits, axis=-1)[:, ::-1]
        lowest = ranked[:, -1:]
        if kind.nucleus:
            mass = mx.array([[p.sampling.top_p] for p in picks])
            before = mx.cumsum(mx.softmax((ranked - ranked[:, :1]) / temperature, axis=-1), axis=-1, inclusive=False)
            count = mx.maximum(mx.sum(before < mass, axis=-1, keepdims=True), 1)
            lowest = mx.take_along_axis(ranked, count - 1, axis=-1)
    if kind.floor:
        ratio = mx.log(mx.array([[p.sampling.min_p] for p in picks]))
        floor = mx.max(logits, axis=-1, keepdims=True) + temperature * ratio
        lowest = floor if lowest is None else mx.maximum(lowest, floor)
    return lowest
