"""Both `config.json` files as frozen, checked values.

A field that cannot be honoured is refused with its name, its value and what would do. `config_fields.py` knows the
spellings; here is what a network may rely on afterwards.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from models.config_fields import ConfigError, Fields, RopeConfig, layer_kinds, layer_ropes, sparse_layers

TARGET_ARCHITECTURE = "LagunaForCausalLM"
MODEL_TYPE = "laguna"
SPECULATOR_ARCHITECTURE = "DFlashLagunaForCausalLM"

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


@dataclass(frozen=True)
class TargetConfig:
    """A Laguna target. `attention` and `sparse` have one entry for each layer."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    eps: float
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention: tuple[AttentionConfig, ...]
    sparse: tuple[bool, ...]
    experts: ExpertsConfig | None

    @property
    def num_layers(self) -> int:
        """Transformer blocks."""
        return len(self.attention)

    @classmethod
    def from_path(cls, folder: Path) -> Self:
        """Read `folder/config.json`.

        Raises:
            ConfigError: no such file, no JSON object in it, or a field that will not do.
        """
        return cls.from_dict(read_json(folder / "config.json"))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Check a parsed `config.json`.

        Raises:
            ConfigError: a field that is missing or will not do, by name.
        """
        fields = Fields("target config", raw)
        if "dflash_config" in raw:
            fields.refuse("dflash_config", "absent: this is a speculator, and a target is needed")
        fields.architecture(TARGET_ARCHITECTURE, MODEL_TYPE)
        fields.activation()
        attention = target_attention(fields)
        sparse = sparse_layers(fields, len(attention))
        return cls(
            vocab_size=fields.positive("vocab_size"),
            hidden_size=fields.positive("hidden_size"),
            intermediate_size=fields.positive("intermediate_size"),
            eps=fields.number("rms_norm_eps", 1e-6),
            max_position_embeddings=fields.positive("max_position_embeddings"),
            tie_word_embeddings=fields.flag("tie_word_embeddings", False),
            attention=attention,
            sparse=sparse,
            experts=experts(fields) if any(sparse) else None,
        )


@dataclass(frozen=True)
class SpeculatorConfig:
    """A DFlash speculator. `attention` has one entry for each draft layer; all of them slide."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    eps: float
    attention: tuple[AttentionConfig, ...]
    block_size: int
    mask_token_id: int
    num_target_layers: int
    target_layer_ids: tuple[int, ...]

    @property
    def num_layers(self) -> int:
        """Draft layers."""
        return len(self.attention)

    @classmethod
    def from_path(cls, folder: Path) -> Self:
        """Read `folder/config.json`.

        Raises:
            ConfigError: no such file, no JSON object in it, or a field that will not do.
        """
        return cls.from_dict(read_json(folder / "config.json"))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Check a parsed `config.json`.

        Raises:
            ConfigError: a field that is missing or will not do, by name.
        """
        fields = Fields("speculator config", raw)
        fields.architecture(SPECULATOR_ARCHITECTURE)
        fields.activation()
        dflash = fields.inside("dflash_config")
        if not dflash.flag("causal", True):
            dflash.refuse("causal", "true: a block that sees its own later rows is another network")
        vocab_size = fields.positive("vocab_size")
        if fields.positive("draft_vocab_size", vocab_size) != vocab_size:
            fields.refuse(
                "draft_vocab_size", f"vocab_size ({vocab_size}): the target's embedding and head are borrowed"
            )
        return cls(
            vocab_size=vocab_size,
            hidden_size=fields.positive("hidden_size"),
            intermediate_size=fields.positive("intermediate_size"),
            eps=fields.number("rms_norm_eps", 1e-6),
            attention=speculator_attention(fields),
            block_size=block_size(dflash),
            mask_token_id=mask_token(dflash, vocab_size),
            num_target_layers=dflash.positive("num_target_layers"),
            target_layer_ids=tapped_layers(fields, dflash),
        )


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a file.

    Raises:
        ConfigError: the file is absent, cannot be read or holds no JSON object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(str(path), "missing", "a file of the checkpoint") from error
    except OSError as error:
        raise ConfigError(str(path), f"unreadable ({error.strerror})", "a file of the checkpoint") from error
    # Lists within lists without end are no ValueError.
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), f"not JSON ({error})", "one JSON object") from error
    if not isinstance(raw, dict):
        raise ConfigError(str(path), type(raw).__name__, "one JSON object")
    return raw


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
    layers = fields.positive("num_hidden_layers")
    kv_heads, head_dim = fields.positive("num_key_value_heads"), fields.positive("head_dim")
    kinds = layer_kinds(fields, layers)
    ropes = layer_ropes(fields, head_dim, frozenset(kinds))
    if "sliding_attention" in kinds and not fields.raw.get("sliding_window"):
        fields.refuse("sliding_window", "a positive number of keys, since layer_types has sliding layers")
    if fields.flag("swa_attention_sink_enabled", False):
        fields.refuse("swa_attention_sink_enabled", "false: attention sinks are not part of this network")
    heads = fields.integers("num_attention_heads_per_layer", layers, default=fields.positive("num_attention_heads"))
    for index, count in enumerate(heads):
        if count < 1 or count % kv_heads:
            fields.refuse(
                "num_attention_heads_per_layer", f"multiples of num_key_value_heads ({kv_heads}); see {index}"
            )
    return tuple(
        AttentionConfig(
            hidden_size=fields.positive("hidden_size"),
            heads=count,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=fields.number("rms_norm_eps", 1e-6),
            window=fields.positive("sliding_window") if kind == "sliding_attention" else None,
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
    count, per_token = fields.positive("num_experts"), fields.positive("num_experts_per_tok")
    if per_token > count:
        fields.refuse("num_experts_per_tok", f"at most num_experts ({count})")
    scores: dict[Any, Score] = {"sigmoid": "sigmoid", "sqrtsoftplus": "sqrtsoftplus", "softmax": "softmax"}
    legacy = "sigmoid" if fields.flag("moe_router_use_sigmoid", True) else "softmax"
    return ExpertsConfig(
        count=count,
        per_token=per_token,
        intermediate_size=fields.positive("moe_intermediate_size"),
        shared_intermediate_size=fields.positive("shared_expert_intermediate_size"),
        scaling=fields.number("moe_routed_scaling_factor", 1.0),
        softcap=fields.number("moe_router_logit_softcapping", 0.0, least=0.0),
        score=fields.one_of("moe_router_score_func", scores, default=legacy),
        normalise=fields.flag("norm_topk_prob", True),
    )


def speculator_attention(fields: Fields) -> tuple[AttentionConfig, ...]:
    """Each draft layer's attention: sliding, gated, with one plain rotation over the whole head."""
    layers = fields.positive("num_hidden_layers")
    heads, kv_heads = fields.positive("num_attention_heads"), fields.positive("num_key_value_heads")
    if heads % kv_heads:
        fields.refuse("num_attention_heads", f"a multiple of num_key_value_heads ({kv_heads})")
    if set(layer_kinds(fields, layers, default="sliding_attention")) != {"sliding_attention"}:
        fields.refuse("layer_types", "only 'sliding_attention': the context of a full layer would grow without end")
    windows = fields.integers("sliding_windows", layers, default=fields.positive("sliding_window"))
    if min(windows) < 2:
        fields.refuse("sliding_windows", "numbers of keys of at least 2: the anchor and some context")
    head_dim = fields.positive("head_dim")
    rope = layer_ropes(fields, head_dim, frozenset({"sliding_attention"}))["sliding_attention"]
    return tuple(
        AttentionConfig(
            hidden_size=fields.positive("hidden_size"),
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
    size = dflash.positive("block_size")
    if size < 2:
        dflash.refuse("block_size", "at least 2: an anchor and one draft")
    return size


def mask_token(dflash: Fields, vocab_size: int) -> int:
    """The id that stands for a token not yet drafted."""
    mask = dflash.positive("mask_token_id", least=0)
    if mask >= vocab_size:
        dflash.refuse("mask_token_id", f"below vocab_size ({vocab_size})")
    return mask


def tapped_layers(fields: Fields, dflash: Fields) -> tuple[int, ...]:
    """The target layers whose outputs are read, 0-based; the `eagle` spelling names the inputs one layer later."""
    count = dflash.positive("num_target_layers")
    ids = dflash.integers("target_layer_ids")
    if not ids or any(not 0 <= index < count for index in ids):
        dflash.refuse("target_layer_ids", f"one or more layers in 0..{count - 1} (num_target_layers is {count})")
    expected = tuple(index + 1 for index in ids)
    if fields.integers("eagle_aux_hidden_state_layer_ids", default=expected) != expected:
        fields.refuse("eagle_aux_hidden_state_layer_ids", f"target_layer_ids + 1: {list(expected)}")
    return ids
