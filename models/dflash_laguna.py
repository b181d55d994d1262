"""The DFlash speculator: tapped states of committed tokens in, one block of draft logits out.

Method: DFlash (arXiv 2602.06036), with the semantics of vLLM's `laguna_dflash.py`: taps are layer outputs, the context
passes each layer's `input_layernorm`, positions are absolute, the window counts for each query, the block is causal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Never

import mlx.core as mx
import mlx.nn as nn

from models.attention import Attention, KVCache, Layout, by_head, own
from models.cache import CacheError, WindowCache
from models.config import SpeculatorConfig
from models.contract import LayerCache, Row
from models.experts import FeedForward
from models.kernels import Attend, attend_over
from models.slack import NEAR

_TAKEN_BACK = NEAR
"""A session may end, or be kept, so many rows before the one that its context took up last."""


class StandaloneSpeculatorError(TypeError):
    """The speculator was called as if it were a language model."""


@dataclass(frozen=True)
class Vocabulary:
    """What is borrowed from the target; a dataclass, so that its weights are not this module's parameters."""

    embed: Callable[[mx.array], mx.array]
    head: Callable[[mx.array], mx.array]


class DraftBlock(nn.Module):
    """One draft layer."""

    def __init__(self, config: SpeculatorConfig, index: int) -> None:
        super().__init__()
        self.self_attn = Attention(config.attention[index])
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.eps)

    def keys_and_values(self, fused: mx.array, layout: Layout) -> tuple[mx.array, mx.array]:
        """Keys and values [1, kv_heads, T, head_dim] of context rows, which pass this layer's own norm."""
        return self.self_attn.keys_and_values(self.input_layernorm(fused), layout)

    def __call__(self, x: mx.array, layout: Layout, caches: Sequence[KVCache], attend: Attend) -> mx.array:
        """Block rows [T, hidden] to [T, hidden], over the contexts, which stay as they are."""
        h = x + self.self_attn(self.input_layernorm(x), layout, caches, attend, remember=False)
        return h + self.mlp(self.post_attention_layernorm(h))


class JointContext(nn.Module):
    """Keys and values of all layers from context rows, as one product, one norm and one turn.

    The layers norm the same rows and differ in their weights alone, which are multiplied into the projections.
    """

    def __init__(self, layers: Sequence[DraftBlock], eps: float) -> None:
        super().__init__()
        attentions = [layer.self_attn for layer in layers]
        self.count, self.eps, self.first = len(layers), eps, attentions[0]
        scales = [layer.input_layernorm.weight for layer in layers]
        keys = [attention.k_proj.weight * scale for attention, scale in zip(attentions, scales, strict=True)]
        values = [attention.v_proj.weight * scale for attention, scale in zip(attentions, scales, strict=True)]
        self.weight = mx.concatenate(keys + values)
        self.norms = mx.concatenate([mx.repeat(a.key_norm[None], a.config.kv_heads, axis=0) for a in attentions])

    def __call__(self, fused: mx.array, layout: Layout) -> list[tuple[mx.array, mx.array]]:
        """Rows [T, hidden] to keys and values [1, kv_heads, T, head_dim] for each layer."""
        product = mx.fast.rms_norm(fused, None, self.eps) @ self.weight.T
        keys, values = mx.split(product, 2, axis=-1)
        keys = self.first.placed(keys, self.norms, layout)
        values = by_head(values, layout, self.first.config.head_dim)
        return list(zip(mx.split(keys, self.count, axis=1), mx.split(values, self.count, axis=1), strict=True))


def join_contexts(layers: Sequence[DraftBlock], eps: float) -> JointContext | None:
    """One product for all layers' contexts, or None where their projections are packed, biased or unlike."""
    projections = [part for layer in layers for part in (layer.self_attn.k_proj, layer.self_attn.v_proj)]
    alike = {(layer.self_attn.config.rope, layer.self_attn.config.kv_heads) for layer in layers}
    if len(alike) > 1 or any(type(part) is not nn.Linear or "bias" in part for part in projections):
        return None
    return JointContext(layers, eps)


class DFlashLaguna(nn.Module):
    """The speculator (`models.contract.Speculator`)."""

    def __init__(
        self,
        config: SpeculatorConfig,
        *,
        embed: Callable[[mx.array], mx.array],
        head: Callable[[mx.array], mx.array],
    ) -> None:
        super().__init__()
        self.config = config
        self._vocabulary = Vocabulary(embed, head)
        taps, hidden = len(config.target_layer_ids), config.hidden_size
        self.aux_hidden_norms = [nn.RMSNorm(hidden, eps=config.eps) for _ in range(taps)]
        self.fc = nn.Linear(taps * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, eps=config.eps)
        self.layers = [DraftBlock(config, index) for index in range(config.num_layers)]
        self.norm = nn.RMSNorm(hidden, eps=config.eps)
        self._aux: mx.array | None = None
        self._context: JointContext | None = None

    def join(self) -> None:
        """Make one product of what all layers' contexts need, once the weights are final."""
        self._aux = mx.stack([norm.weight for norm in self.aux_hidden_norms])
        self._context = join_contexts(self.layers, self.config.eps)

    @property
    def block_size(self) -> int:
        """Rows of the widest block, the anchor's included."""
        return self.config.block_size

    @property
    def target_layer_ids(self) -> tuple[int, ...]:
        """The target layers whose outputs it reads, 0-based."""
        return self.config.target_layer_ids

    def make_context(self) -> list[LayerCache]:
        """An empty context for one session, one cache per draft layer."""
        return [WindowCache(attention.window or 1, slack=_TAKEN_BACK) for attention in self.config.attention]

    def fuse(self, taps: Sequence[mx.array]) -> mx.array:
        """Tapped states, one [T, hidden] per tapped layer, to context rows [T, hidden].

        Raises:
            ValueError: another number of taps than `target_layer_ids` names.
        """
        if len(taps) != len(self.aux_hidden_norms):
            raise ValueError(f"{len(taps)} taps; this speculator reads the layers {list(self.target_layer_ids)}")
        weights = mx.stack([norm.weight for norm in self.aux_hidden_norms]) if self._aux is None else self._aux
        normed = mx.fast.rms_norm(mx.stack(list(taps), axis=1), None, self.config.eps) * weights
        return self.hidden_norm(self.fc(normed.flatten(1)))

    def absorb(self, fused: mx.array, rows: Sequence[Row]) -> None:
        """Append the context rows `fused` [T, hidden] of committed tokens to each row's context.

        Of a row longer than the window only the end is projected: nothing later can see the rest.

        Raises:
            RowError: the rows do not fit the batch or the network.
            CacheError: a cache that `make_context` did not make.
        """
        keep = max(attention.window or 1 for attention in self.config.attention) - 1 + _TAKEN_BACK
        if any(row.stop - row.start > keep for row in rows):
            fused, rows = _newest(fused, rows, keep)
        layout = Layout.of(rows, fused.shape[0], self.config.num_layers)
        if self._context is None:
            states = [layer.keys_and_values(fused, layout) for layer in self.layers]
        else:
            states = self._context(fused, layout)
        for (keys, values), caches in zip(states, layout.caches, strict=True):
            _remember(keys, values, layout.cuts, caches)

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        """One pass over all blocks: an anchor and `stop - start - 1` masks each; contexts are read, not changed.

        Args:
            anchors: [B] int32, the newest token of each row, at the position that follows its context.
            rows: the blocks, each of 2 tokens or more.

        Returns:
            Logits [sum of (stop - start - 1), vocabulary] of the tokens that follow the anchors.

        Raises:
            RowError: the rows do not fit the network.
            CacheError: a cache that `make_context` did not make.
        """
        layout = Layout.of(rows, rows[-1].stop, self.config.num_layers)
        ids, drafts = self._blocks(anchors, rows)
        x = self._vocabulary.embed(ids)
        attends = {window: attend_over(window, x.dtype) for window in {a.window for a in self.config.attention}}
        for layer, attention, caches in zip(self.layers, self.config.attention, layout.caches, strict=True):
            x = layer(x, layout, caches, attends[attention.window])
        return self._vocabulary.head(self.norm(x[drafts]))

    def _blocks(self, anchors: mx.array, rows: Sequence[Row]) -> tuple[mx.array, mx.array | slice]:
        """The ids of all blocks, and where in them the masks are."""
        mask = self.config.mask_token_id
        if len(rows) == 1:
            return mx.concatenate([anchors, mx.array([mask] * (rows[0].stop - 1), anchors.dtype)]), slice(1, None)
        anchor_of = {row.start: index for index, row in enumerate(rows)}
        order = [anchor_of.get(at, len(rows)) for at in range(rows[-1].stop)]
        ids = mx.concatenate([anchors, mx.array([mask], anchors.dtype)])[mx.array(order)]
        return ids, mx.array([at for at in range(rows[-1].stop) if at not in anchor_of])

    def __call__(self, *_args: object, **_kwargs: object) -> Never:
        """Always refuses.

        Raises:
            StandaloneSpeculatorError: a speculator has neither embedding nor head, and reads a target's states.
        """
        raise StandaloneSpeculatorError(
            "a DFlash speculator is not a language model: it drafts blocks from a target's tapped states. "
            "Load it beside its target and use fuse, absorb and draft_block"
        )

    def fused_widths(self) -> dict[str, int]:
        """Inputs of the projections that published files hold in one piece, by their path there."""
        return {f"layers.{index}.self_attn.qkv_proj": a.hidden_size for index, a in enumerate(self.config.attention)}

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """Published tensor names to this network's: a fused `qkv_proj` becomes three; split ones pass as they are.

        Rows are cut, packed or not; a scale of the whole matrix goes to each part.
        """
        weights = dict(weights)
        for index, attention in enumerate(self.config.attention):
            prefix = f"layers.{index}.self_attn"
            queries, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
            for suffix in ("weight", "scales", "biases", "divisor"):
                fused = weights.pop(f"{prefix}.qkv_proj.{suffix}", None)
                if fused is None:
                    continue
                one_each = suffix == "divisor"
                cuts = [1, 2] if one_each else [queries, queries + keys]
                parts = mx.split(mx.broadcast_to(fused, (3,)) if one_each else fused, cuts, axis=0)
                for name, part in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
                    weights[f"{prefix}.{name}.{suffix}"] = part
        return weights


def _remember(keys: mx.array, values: mx.array, cuts: list[int], caches: Sequence[KVCache]) -> None:
    """Append to each row's cache its part of keys and values [1, kv_heads, T, head_dim]."""
    if len(caches) == 1:
        caches[0].update(keys, values)
        return
    parts = zip(mx.split(keys, cuts, axis=2), mx.split(values, cuts, axis=2), strict=True)
    for cache, (row_keys, row_values) in zip(caches, parts, strict=True):
        cache.update(row_keys, row_values)


def _newest(fused: mx.array, rows: Sequence[Row], keep: int) -> tuple[mx.array, list[Row]]:
    """The last `keep` tokens of each row, the others' positions passed over in its contexts."""
    kept, parts, reached = [], [], 0
    for row in rows:
        dropped = max(0, row.stop - row.start - keep)
        for cache in map(own, row.caches if dropped else ()):
            if not isinstance(cache, WindowCache):
                raise CacheError(f"a {type(cache).__name__} is not a context that make_context returned")
            cache.skip(dropped)
        parts.append(fused[row.start + dropped : row.stop])
        length = row.stop - row.start - dropped
        kept.append(Row(reached, reached + length, row.caches))
        reached += length
    return mx.concatenate(parts, axis=0), kept
