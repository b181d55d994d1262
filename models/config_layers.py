"""What each layer of either network is, read from the fields of its `config.json`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.config_fields import Fields, RopeConfig, layer_kinds, layer_ropes

Gating = Literal["per-head", "per-element", "none"]
Score = Literal["sigmoid", "sqrtsoftplus", "softmax"]


@dataclass(frozen=True)
class AttentionConfig:
    """One layer's attention: `window` counts visible keys, the query's own included (None: all)."""

    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    window: int | None
    gating: Gating
    rope: RopeConfig
    qkv_bias: bool = False
    output_bias: bool = False
    kv_bits: int | None = None

    @property
    def gate_rows(self) -> int:
        """Rows of `g_proj`: one a head, or one an element of the attention output."""
        return {"per-head": self.heads, "per-element": self.heads * self.head_dim, "none": 0}[self.gating]


@dataclass(frozen=True)
class ExpertsConfig:
    """The sparse layers: `softcap` 0 means none; `scaling` multiplies the routed sum, not the shared expert."""

    count: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int
    scaling: float
    softcap: float
    score: Score
    normalise: bool


def gatings(fields: Fields, layers: int) -> tuple[Gating, ...]:
    """Each layer's gate: `gating_types`, else `gating`; `true` is per-head, `false` none.

    Older files wrote `true` for per-element, so a network trusts its tensors' shapes more than this.
    """
    kinds: dict[Any, Gating] = {True: "per-head", False: "none", "per-head": "per-head", "per-element": "per-element"}
    # The list spells what the single field spells with a hyphen.
    kinds |= {"per_head": "per-head", "per_element": "per-element"}
    listed = fields.get("gating_types")
    if listed is None:
        return (fields.one_of("gating", kinds, default=True),) * layers
    if isinstance(listed, str) or not isinstance(listed, Sequence) or len(listed) != layers:
        fields.refuse("gating_types", f"a list of {layers} entries, one a layer")
    return tuple(
        Fields(fields.owner, {"gating_types": one}).one_of("gating_types", kinds, default=None) for one in listed
    )


def target_attention(fields: Fields) -> tuple[AttentionConfig, ...]:
    """Each layer's attention, with its own head count, window and positions."""
    layers = fields.integer("num_hidden_layers")
    kv_heads, head_dim = fields.integer("num_key_value_heads"), fields.integer("head_dim")
    kinds = layer_kinds(fields, layers)
    ropes = layer_ropes(fields, head_dim, frozenset(kinds))
    if "sliding_attention" in kinds and not fields.raw.get("sliding_window"):
        fields.refuse("sliding_window", "a positive number of keys, since layer_types has sliding layers")
    if fields.flag("swa_attention_sink_enabled", False):
        fields.refuse("swa_attention_sink_enabled", "false: attention sinks are not part of this network")
    heads = fields.integers("num_attention_heads_per_layer", layers, default=fields.integer("num_attention_heads"))
    for index, count in enumerate(heads):
        if count < 1 or count % kv_heads:
            fields.refuse(
                "num_attention_heads_per_layer", f"multiples of num_key_value_heads ({kv_heads}); see {index}"
            )
    return tuple(
        AttentionConfig(
            hidden_size=fields.integer("hidden_size"),
            heads=count,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=fields.number("rms_norm_eps", 1e-6),
            window=fields.integer("sliding_window") if kind == "sliding_attention" else None,
            gating=gate,
            rope=ropes[kind],
            qkv_bias=fields.flag("qkv_bias", False),
            output_bias=fields.flag("attention_bias", False),
        )
        for kind, count, gate in zip(kinds, heads, gatings(fields, layers), strict=True)
    )


def experts(fields: Fields) -> ExpertsConfig:
    """Router and experts of the sparse layers."""
    if fields.flag("moe_apply_router_weight_on_input", False):
        fields.refuse("moe_apply_router_weight_on_input", "false: the weight is applied to the experts' outputs")
    count, per_token = fields.integer("num_experts"), fields.integer("num_experts_per_tok")
    if per_token > count:
        fields.refuse("num_experts_per_tok", f"at most num_experts ({count})")
    scores: dict[Any, Score] = {"sigmoid": "sigmoid", "sqrtsoftplus": "sqrtsoftplus", "softmax": "softmax"}
    legacy = "sigmoid" if fields.flag("moe_router_use_sigmoid", True) else "softmax"
    return ExpertsConfig(
        count=count,
        per_token=per_token,
        intermediate_size=fields.integer("moe_intermediate_size"),
        shared_intermediate_size=fields.integer("shared_expert_intermediate_size"),
        scaling=fields.number("moe_routed_scaling_factor", 1.0),
        softcap=fields.number("moe_router_logit_softcapping", 0.0, least=0.0),
        score=fields.one_of("moe_router_score_func", scores, default=legacy),
        normalise=fields.flag("norm_topk_prob", True),
    )


def speculator_attention(fields: Fields) -> tuple[AttentionConfig, ...]:
    """Each draft layer's attention: sliding, gated, with one plain rotation over the whole head."""
    layers = fields.integer("num_hidden_layers")
    heads, kv_heads = fields.integer("num_attention_heads"), fields.integer("num_key_value_heads")
    if heads % kv_heads:
        fields.refuse("num_attention_heads", f"a multiple of num_key_value_heads ({kv_heads})")
    if set(layer_kinds(fields, layers, default="sliding_attention")) != {"sliding_attention"}:
        fields.refuse("layer_types", "only 'sliding_attention': the context of a full layer would grow without end")
    windows = fields.integers("sliding_windows", layers, default=fields.integer("sliding_window"))
    if min(windows) < 2:
        fields.refuse("sliding_windows", "numbers of keys of at least 2: the anchor and some context")
    head_dim = fields.integer("head_dim")
    rope = layer_ropes(fields, head_dim, frozenset({"sliding_attention"}))["sliding_attention"]
    return tuple(
        AttentionConfig(
            hidden_size=fields.integer("hidden_size"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=fields.number("rms_norm_eps", 1e-6),
            window=window,
            gating=gate,
            rope=rope,
        )
        for window, gate in zip(windows, gatings(fields, layers), strict=True)
    )


def block_size(dflash: Fields) -> int:
    """Rows of the widest block: the anchor's and at least one mask."""
    size = dflash.integer("block_size")
    if size < 2:
        dflash.refuse("block_size", "at least 2: an anchor and one draft")
    return size


def mask_token(dflash: Fields, vocab_size: int) -> int:
    """The id that stands for a token not yet drafted."""
    mask = dflash.integer("mask_token_id", least=0)
    if mask >= vocab_size:
        dflash.refuse("mask_token_id", f"below vocab_size ({vocab_size})")
    return mask


def tapped_layers(fields: Fields, dflash: Fields) -> tuple[int, ...]:
    """The target layers whose outputs are read, 0-based; the `eagle` spelling names the inputs one layer later."""
    count = dflash.integer("num_target_layers")
    ids = dflash.integers("target_layer_ids")
    if not ids or any(not 0 <= index < count for index in ids):
        dflash.refuse("target_layer_ids", f"one or more layers in 0..{count - 1} (num_target_layers is {count})")
    expected = tuple(index + 1 for index in ids)
    if fields.integers("eagle_aux_hidden_state_layer_ids", default=expected) != expected:
        fields.refuse("eagle_aux_hidden_state_layer_ids", f"target_layer_ids + 1: {list(expected)}")
    return ids
