"""Attention over flat rows: projections see the whole batch, each row attends to its own session only."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import mlx.core as mx
import mlx.nn as nn

from models.cache import CacheError, FullCache, WindowCache
from models.config_layers import AttentionConfig
from models.contract import Row
from models.joining import Projection, join
from models.joint import Shared, Visits, exchange, joinable, tidied, visits
from models.kernels import Attend
from models.packed_cache import PackedCache
from models.rope import Rotary

KVCache = FullCache | PackedCache | WindowCache


class RowError(ValueError):
    """The rows of a pass do not fit the flat batch, or own no caches for it."""


@dataclass(frozen=True)
class Layout:
    """How the rows of one pass lie in the flat batch; worked out once, used by every layer.

    `caches` has one entry a layer, each with one cache a row. `positions` is the first position of a lone row, or the
    position of each token [T] where there are several.
    """

    total: int
    cuts: list[int]
    singles: tuple[int, ...]
    """Rows of one token each, by their place among the rows."""
    visits: Visits
    caches: tuple[tuple[KVCache, ...], ...]
    positions: int | mx.array

    @classmethod
    def of(cls, rows: Sequence[Row], total: int, layers: int) -> "Layout":
        """Check `rows` against a batch of `total` tokens and a network of `layers` layers.

        Raises:
            RowError: the rows leave a gap, overlap, are empty, or bring another number of caches.
            CacheError: a cache that this network did not make.
        """
        reached = 0
        for row in rows:
            if row.start != reached or row.stop <= row.start:
                raise RowError(f"row {row.start}..{row.stop} must start at {reached} and hold at least one token")
            if len(row.caches) != layers:
                raise RowError(f"row {row.start}..{row.stop} brings {len(row.caches)} caches for {layers} layers")
            reached = row.stop
        if reached != total:
            raise RowError(f"the rows end at {reached}, the batch at {total}")
        offsets = tuple(row.caches[0].offset for row in rows)
        lengths = tuple(row.stop - row.start for row in rows)
        places = [p for at, length in zip(offsets, lengths, strict=True) for p in range(at, at + length)]
        return cls(
            total=total,
            cuts=[row.stop for row in rows[:-1]],
            singles=tuple(place for place, length in enumerate(lengths) if length == 1),
            visits=visits(),
            caches=tuple(tuple(own(row.caches[layer]) for row in rows) for layer in range(layers)),
            positions=offsets[0] if len(rows) == 1 else mx.array(places, dtype=mx.int32),
        )


def own(cache: object) -> KVCache:
    """The cache, known to be one of ours.

    Raises:
        CacheError: it is not.
    """
    if not isinstance(cache, FullCache | PackedCache | WindowCache):
        raise CacheError(f"a {type(cache).__name__} is not a cache that make_caches or make_context returned")
    return cache


def by_head(values: mx.array, layout: Layout, head_dim: int) -> mx.array:
    """[T, heads * head_dim] to [1, heads, T, head_dim]."""
    return values.reshape(1, layout.total, -1, head_dim).transpose(0, 2, 1, 3)


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys, rotary positions and a softplus gate on the output."""

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        hidden, width, kv_width = config.hidden_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(hidden, width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(hidden, kv_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(hidden, kv_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(width, hidden, bias=config.output_bias)
        self.q_norm = nn.RMSNorm(config.head_dim, eps=config.eps)
        self.k_norm = nn.RMSNorm(config.head_dim, eps=config.eps)
        if config.gate_rows:
            self.g_proj = nn.Linear(hidden, config.gate_rows, bias=False)
        self._rotary = Rotary(config.rope, config.head_dim)
        self._joined: Projection | None = None
        self._norms: mx.array | None = None
        self._cuts = [width + kv_width, width + 2 * kv_width][: 2 if config.gate_rows else 1]

    def join(self) -> None:
        """Make one product of the projections that read the same input, once the weights are final."""
        self._norms = self._norm_weights()
        parts = [self.q_proj, self.k_proj, self.v_proj] + ([self.g_proj] if self.config.gate_rows else [])
        self._joined = join(parts)

    def __call__(
        self,
        x: mx.array,
        layout: Layout,
        caches: Sequence[KVCache],
        attend: Attend,
        *,
        remember: bool = True,
    ) -> mx.array:
        """Attend for `x` [T, hidden], one cache a row.

        Without `remember` the caches are read and left as they are (a speculator's block over its context).
        """
        heads, head_dim = self.config.heads, self.config.head_dim
        to_turn, values, *gates = self._projected(x)
        weights = self._norm_weights() if self._norms is None else self._norms
        if len(caches) == 1:
            turned, values = self.placed(to_turn, weights, layout), by_head(values, layout, head_dim)
            out = self._row(turned[:, :heads], turned[:, heads:], values, caches[0], attend, remember)
            return self.o_proj(self._gated(out.transpose(0, 2, 1, 3), gates))
        turned, values = self._turned(to_turn, weights, layout), values.reshape(layout.total, -1, 1, head_dim)
        rows = turned[:, :heads], turned[:, heads:], values
        return self.o_proj(self._gated(self._rows(rows, layout, caches, attend, remember), gates))

    def keys_and_values(self, x: mx.array, layout: Layout) -> tuple[mx.array, mx.array]:
        """Keys, normed and at their positions, and values of `x` [T, hidden]: both [1, kv_heads, T, head_dim]."""
        return self.placed(self.k_proj(x), self.key_norm, layout), by_head(self.v_proj(x), layout, self.config.head_dim)

    @property
    def key_norm(self) -> mx.array:
        """What normed keys are multiplied by, [head_dim]."""
        return self._rotary.scaled(self.k_norm.weight)

    def _projected(self, x: mx.array) -> list[mx.array]:
        """Queries with keys, values, and the gate where there is one."""
        if self._joined is not None:
            return list(mx.split(self._joined(x), self._cuts, axis=-1))
        to_turn = mx.concatenate([self.q_proj(x), self.k_proj(x)], axis=-1)
        return [to_turn, self.v_proj(x), *([self.g_proj(x)] if self.config.gate_rows else [])]

    def _norm_weights(self) -> mx.array:
        """One norm weight [head_dim] for each head of queries and keys: [heads + kv_heads, head_dim]."""
        head_dim = self.config.head_dim
        queries = mx.broadcast_to(self._rotary.scaled(self.q_norm.weight), (self.config.heads, head_dim))
        keys = mx.broadcast_to(self.key_norm, (self.config.kv_heads, head_dim))
        return mx.concatenate([queries, keys])

    def placed(self, x: mx.array, weights: mx.array, layout: Layout) -> mx.array:
        """Norm each head of [T, heads * head_dim] and turn it to its position: [1, heads, T, head_dim]."""
        if not isinstance(layout.positions, int):
            return self._turned(x, weights, layout).transpose(2, 1, 0, 3)
        return self._rotary(self._normed(x, weights, layout).transpose(1, 0, 2)[None], layout.positions)

    def _turned(self, x: mx.array, weights: mx.array, layout: Layout) -> mx.array:
        """The same of several rows, token by token: [T, heads, 1, head_dim]."""
        return self._rotary(self._normed(x, weights, layout)[:, :, None], layout.positions)

    def _normed(self, x: mx.array, weights: mx.array, layout: Layout) -> mx.array:
        return mx.fast.rms_norm(x.reshape(layout.total, -1, self.config.head_dim), None, self.config.eps) * weights

    def _rows(
        self,
        rows: tuple[mx.array, mx.array, mx.array],
        layout: Layout,
        caches: Sequence[KVCache],
        attend: Attend,
        remember: bool,
    ) -> mx.array:
        """Queries, keys and values of several sessions [T, heads, 1, head_dim] to [1, T, heads, head_dim].

        Sessions with one token each go in one, where their caches lie side by side.
        """
        together = joinable(layout.singles, caches) if remember else {}
        if len(together) == len(caches):
            return self._each(rows, list(together.values()), layout, attend).transpose(2, 0, 1, 3)
        starts = [0, *layout.cuts]
        runs = [list(run) for _, run in groupby(range(len(caches)), lambda place: -1 if place in together else place)]
        cuts = [starts[run[0]] for run in runs[1:]]
        parts = list(zip(*(mx.split(part, cuts) for part in rows), strict=True))
        joined = [number for number, run in enumerate(runs) if run[0] in together]
        done: dict[int, mx.array] = {}
        if joined:
            picked = [mx.concatenate(list(part)) for part in zip(*(parts[run] for run in joined), strict=True)]
            out = self._each(picked, list(together.values()), layout, attend)
            ends = list(accumulate(len(runs[number]) for number in joined[:-1]))
            done = dict(zip(joined, mx.split(out, ends), strict=True))
        for number, part in enumerate(parts):
            if number not in done:
                queries, keys, values = (states.transpose(2, 1, 0, 3) for states in part)
                out = self._row(queries, keys, values, caches[runs[number][0]], attend, remember)
                done[number] = out.transpose(2, 1, 0, 3)
        tidied(caches[place] for place in layout.singles)
        return mx.concatenate([done[number] for number in range(len(runs))]).transpose(2, 0, 1, 3)

    def _each(self, rows: Sequence[mx.array], caches: Sequence[Shared], layout: Layout, attend: Attend) -> mx.array:
        """One token of each session: queries, keys and values [N, heads, 1, head_dim] to [N, heads, 1, head_dim]."""
        queries, keys, values = rows
        keys, values, visit = exchange(caches, keys, values, layout.visits)
        out = attend.each(visit.to_slots(queries), keys, values, self.config.head_dim**-0.5, visit.seen)
        return visit.from_slots(out)

    def _row(
        self, queries: mx.array, keys: mx.array, values: mx.array, cache: KVCache, attend: Attend, remember: bool
    ) -> mx.array:
        if remember:
            keys, values = cache.update(keys, values)
        elif isinstance(cache, WindowCache):
            keys, values = cache.peek(keys, values)
        return attend.row(queries, keys, values, self.config.head_dim**-0.5)

    def _gated(self, out: mx.array, gates: Sequence[mx.array]) -> mx.array:
        """Attention output [1, T, heads, head_dim] to [T, heads * head_dim], gated in float32 and cast back."""
        total, width = out.shape[1], self.config.heads * self.config.head_dim
        if not gates:
            return out.reshape(total, width)
        gate = nn.softplus(gates[0].astype(mx.float32)).astype(out.dtype)
        if self.config.gating == "per-head":
            return (out * gate[None, :, :, None]).reshape(total, width)
        return out.reshape(total, width) * gate
