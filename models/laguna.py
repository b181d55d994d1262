"""The Laguna target over flat rows: token ids in, logits and tapped layer outputs out.

The numbers are those of mlx-lm's `models/laguna.py`, and so are the parameters' names.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn

from models.attention import Attention, KVCache, Layout
from models.cache import FullCache, WindowCache
from models.config import TargetConfig
from models.config_layers import AttentionConfig, Gating
from models.contract import LayerCache, Output, Row
from models.experts import Experts, FeedForward
from models.kernels import Attend, attend_over
from models.loading import packed_group
from models.naming import named
from models.packed_cache import PackedCache

PORTIONS = 8
"""A pass goes to the device in about so many portions, each while the next one is still written down."""

log = logging.getLogger(__name__)


class Block(nn.Module):
    """One layer: attention, then a dense or sparse feed-forward, each on its own norm of the residual stream."""

    def __init__(self, config: TargetConfig, index: int) -> None:
        super().__init__()
        self.self_attn = Attention(config.attention[index])
        if config.experts is not None and config.sparse[index]:
            self.mlp = Experts(config.hidden_size, config.experts)
        else:
            self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.eps)

    def __call__(self, x: mx.array, layout: Layout, caches: Sequence[KVCache], attend: Attend) -> mx.array:
        """[T, hidden] to [T, hidden]."""
        h = x + self.self_attn(self.input_layernorm(x), layout, caches, attend)
        return h + self.mlp(self.post_attention_layernorm(h))


class Trunk(nn.Module):
    """Embedding, blocks and final norm, under the names of the published tensors."""

    def __init__(self, config: TargetConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = [Block(config, index) for index in range(config.num_layers)]
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.eps)


class Laguna(nn.Module):
    """The target (`models.contract.Target`)."""

    def __init__(self, config: TargetConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self.config.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        """Empty caches, one per layer, that can give back up to `slack` tokens at any time; `room` are foreseen."""
        return [_cache(attention, slack, room) for attention in self.config.attention]

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        """Run `ids` [T] (int32); `rows` cover 0..T in order.

        Args:
            ids: the tokens of all rows, side by side.
            rows: whose tokens they are; the caches of each row take its tokens.
            taps: layers whose outputs are wanted, 0-based.
            logit_rows: flat rows [R] for the head (None: all T).

        Returns:
            Logits [R, vocabulary] and one [T, hidden] for each tap, in the parameters' dtype.

        Raises:
            RowError: the rows do not fit the batch or the network.
            CacheError: a cache that `make_caches` did not make.
        """
        config = self.config
        layout = Layout.of(rows, ids.shape[0], config.num_layers)
        portion = max(1, config.num_layers // PORTIONS)
        h = self.model.embed_tokens(ids)
        attends = {window: attend_over(window, h.dtype) for window in {a.window for a in config.attention}}
        states: list[mx.array] = []
        for layer, attention, caches in zip(self.model.layers, config.attention, layout.caches, strict=True):
            h = layer(h, layout, caches, attends[attention.window])
            states.append(h)
            if len(states) % portion == 0:
                mx.async_eval(h)
        picked = h if logit_rows is None else h[logit_rows]
        return Output(logits=self.head(self.model.norm(picked)), taps=tuple(states[tap] for tap in taps))

    def embed(self, ids: mx.array) -> mx.array:
        """Ids [T] to the residual stream [T, hidden]; a speculator borrows it."""
        return self.model.embed_tokens(ids)

    def head(self, x: mx.array) -> mx.array:
        """Normed states [R, hidden] to logits [R, vocabulary]; a speculator borrows it."""
        return self.model.embed_tokens.as_linear(x) if self.config.tie_word_embeddings else self.lm_head(x)

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """Published tensors under this network's names (`models.naming`); gates become of the kind that theirs are.

        Raises:
            NamingError: an expert is missing, or the experts of a layer differ in shape or dtype.
        """
        weights = named(weights)
        if self.config.tie_word_embeddings:
            weights.pop("lm_head.weight", None)
        self._gate_as_shaped(weights)
        return weights

    def _gate_as_shaped(self, weights: dict[str, mx.array]) -> None:
        """Configurations spell the kind of gate in ways that once meant another: the tensor's rows decide."""
        kinds: tuple[Gating, ...] = ("per-head", "per-element")
        for layer, (index, attention) in zip(self.model.layers, enumerate(self.config.attention), strict=True):
            gate = weights.get(f"model.layers.{index}.self_attn.g_proj.weight")
            if gate is None or attention.gating == "none" or gate.shape[0] == attention.gate_rows:
                continue
            for kind in kinds:
                if gate.shape[0] == (shaped := replace(attention, gating=kind)).gate_rows:
                    log.warning("layer %d: gating is %s in the config, its tensor is %s", index, attention.gating, kind)
                    layer.self_attn = Attention(shaped)


def _cache(attention: AttentionConfig, slack: int, room: int) -> LayerCache:
    if attention.window is not None:
        return WindowCache(attention.window, slack)
    group = packed_group(attention.head_dim)
    if attention.kv_bits is None or group is None:
        return FullCache(room)
    return PackedCache(attention.kv_bits, group, room)
