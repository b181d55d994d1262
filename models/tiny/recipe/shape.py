"""The sizes of the embedded pair and its configurations in the published layout."""

from dataclasses import dataclass
from typing import Any

from models.tiny.recipe.vocabulary import VOCABULARY


@dataclass(frozen=True)
class Shape:
    """The target: full and sliding layers in turn, a dense first layer, then experts."""

    vocabulary: int = VOCABULARY
    hidden: int = 128
    layers: int = 5
    kv_heads: int = 2
    head_dim: int = 32
    inner: int = 256
    experts: int = 8
    top_k: int = 2
    expert_inner: int = 64
    shared_inner: int = 128
    scaling: float = 1.5
    window: int = 64
    yarn_factor: float = 4.0
    yarn_original: int = 1024

    def sliding(self, index: int) -> bool:
        """Whether layer `index` sees a window only."""
        return index % 2 == 1

    def heads(self, index: int) -> int:
        """Query heads of layer `index`."""
        return 8 if self.sliding(index) else 6

    def config(self) -> dict[str, Any]:
        """`config.json` as published for the 2.1 models."""
        layers = range(self.layers)
        return {
            "architectures": ["LagunaForCausalLM"],
            "model_type": "laguna",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads(0),
            "num_attention_heads_per_layer": [self.heads(i) for i in layers],
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": int(self.yarn_original * self.yarn_factor),
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "qkv_bias": False,
            "tie_word_embeddings": False,
            "gating": "per-head",
            "sliding_window": self.window,
            "layer_types": ["sliding_attention" if self.sliding(i) else "full_attention" for i in layers],
            "mlp_only_layers": [0],
            "mlp_layer_types": ["dense" if i == 0 else "sparse" for i in layers],
            "decoder_sparse_step": 1,
            "num_experts": self.experts,
            "num_experts_per_tok": self.top_k,
            "moe_intermediate_size": self.expert_inner,
            "shared_expert_intermediate_size": self.shared_inner,
            "norm_topk_prob": True,
            "moe_routed_scaling_factor": self.scaling,
            "moe_apply_router_weight_on_input": False,
            "moe_router_logit_softcapping": 0.0,
            "rope_parameters": self._rope(),
            "bos_token_id": 2,
            "eos_token_id": [2, 24],
            "pad_token_id": 9,
            "torch_dtype": "float16",
        }

    def _rope(self) -> dict[str, Any]:
        full = {
            "rope_type": "yarn",
            "rope_theta": 500000.0,
            "factor": self.yarn_factor,
            "original_max_position_embeddings": self.yarn_original,
            "beta_slow": 1.0,
            "beta_fast": 32.0,
            "attention_factor": 1.138629436111989,
            "partial_rotary_factor": 0.5,
        }
        sliding = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
        return {"full_attention": full, "sliding_attention": sliding}


@dataclass(frozen=True)
class SpeculatorShape:
    """The speculator: the target's hidden size and vocabulary, three causal layers."""

    hidden: int = 128
    layers: int = 3
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 32
    inner: int = 256
    taps: tuple[int, ...] = (0, 2, 4)
    window: int = 512
    block: int = 16
    mask: int = 12

    def config(self, target: Shape) -> dict[str, Any]:
        """`config.json` as published for the 2.1 speculators."""
        return {
            "architectures": ["DFlashLagunaForCausalLM"],
            "model_type": "laguna",
            "attention_bias": False,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "max_position_embeddings": int(target.yarn_original * target.yarn_factor),
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_theta": 500000.0,
            "sliding_window": self.window,
            "vocab_size": target.vocabulary,
            "draft_vocab_size": target.vocabulary,
            "layer_types": ["sliding_attention"] * self.layers,
            "gating": "per-head",
            "num_experts": 0,
            "torch_dtype": "float16",
            "eagle_aux_hidden_state_layer_ids": [tap + 1 for tap in self.taps],
            "dflash_config": {
                "block_size": self.block,
                "mask_token_id": self.mask,
                "num_target_layers": target.layers,
                "target_layer_ids": list(self.taps),
                "causal": True,
            },
        }
