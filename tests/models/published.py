"""Published configurations, field by field; what never differs between them stands in `COMMON`.

No file is copied: the values are those that public code and tests quote.
"""

from typing import Any

YARN = {
    "rope_type": "yarn",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "original_max_position_embeddings": 8192,
    "beta_slow": 1.0,
    "beta_fast": 64.0,
    "attention_factor": 1.3465735902799727,
    "partial_rotary_factor": 0.5,
}
SLIDING = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}

COMMON: dict[str, Any] = {
    "architectures": ["LagunaForCausalLM"],
    "model_type": "laguna",
    "vocab_size": 100352,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-06,
    "attention_bias": False,
    "qkv_bias": False,
    "tie_word_embeddings": False,
    "decoder_sparse_step": 1,
    "num_experts": 256,
    "norm_topk_prob": True,
    "moe_apply_router_weight_on_input": False,
    "moe_router_logit_softcapping": 0.0,
    "bos_token_id": 2,
    "eos_token_id": [2, 24],
    "pad_token_id": 9,
    "torch_dtype": "bfloat16",
}

XS_2_1: dict[str, Any] = COMMON | {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 40,
    "num_attention_heads": 48,
    "num_attention_heads_per_layer": [48, 64, 64, 64] * 10,
    "max_position_embeddings": 262144,
    "gating": "per-head",
    "sliding_window": 512,
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 10,
    "mlp_only_layers": [0],
    "mlp_layer_types": ["dense"] + ["sparse"] * 39,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "moe_routed_scaling_factor": 2.5,
    "rope_parameters": {"full_attention": YARN, "sliding_attention": SLIDING},
}

XS_2_1_MLX = XS_2_1 | {
    "rope_parameters": {"full_attention": YARN | {"attention_factor": 1.0}, "sliding_attention": SLIDING},
}
"""The file beside the NVFP4 weights for MLX states another attention_factor."""

S_2_1: dict[str, Any] = XS_2_1 | {
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "num_hidden_layers": 48,
    "num_attention_heads_per_layer": [48, 72, 72, 72] * 12,
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 12,
    "mlp_layer_types": ["dense"] + ["sparse"] * 47,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 1024,
    "shared_expert_intermediate_size": 1024,
    "rope_parameters": {"full_attention": YARN | {"beta_fast": 32.0}, "sliding_attention": SLIDING},
}
"""The quantised ones, for 262,144 tokens."""

S_2_1_LONG: dict[str, Any] = S_2_1 | {
    "max_position_embeddings": 1048576,
    "rope_parameters": {
        "full_attention": YARN | {"beta_fast": 32.0, "factor": 128.0, "attention_factor": 1.4852030263919618},
        "sliding_attention": SLIDING,
    },
}
"""The one in bfloat16, for 1,048,576 tokens."""

XS_2_MIXED = XS_2_1 | {
    "gating": True,
    "partial_rotary_factor": 0.5,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "yarn",
            "rope_theta": 500000.0,
            "factor": 64.0,
            "beta_slow": 1.0,
            "beta_fast": 64.0,
            "attention_factor": 1.0,
        },
        "sliding_attention": SLIDING,
        "original_max_position_embeddings": 4096,
    },
}

XS_2_TWICE = XS_2_1 | {
    "gating": True,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_parameters": {
        "full_attention": YARN | {"original_max_position_embeddings": 4096, "attention_factor": 1.0},
        "sliding_attention": SLIDING,
        "original_max_position_embeddings": 4096,
    },
}
"""An early XS.2 file: the length is stated nested, beside and at the top."""

XS_2_FLAT = XS_2_1 | {
    "gating": True,
    "rope_parameters": YARN | {"original_max_position_embeddings": 4096, "attention_factor": 1.0},
    "swa_rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "linear"},
}

M_1 = {
    key: value
    for key, value in XS_2_1.items()
    if key not in ("rope_parameters", "layer_types", "mlp_layer_types", "num_attention_heads_per_layer")
} | {
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 70,
    "num_attention_heads": 64,
    "gating": "per-element",
    "sliding_window": 0,
    "mlp_only_layers": [0, 1, 2],
    "num_experts_per_tok": 16,
    "moe_intermediate_size": 1024,
    "shared_expert_intermediate_size": 1024,
    "moe_routed_scaling_factor": 1.0,
    "rope_theta": 500000.0,
    "partial_rotary_factor": 1.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 64.0,
        "beta_slow": 1.0,
        "attention_factor": 1.0,
    },
}

XS_2_1_DFLASH: dict[str, Any] = {
    "architectures": ["DFlashLagunaForCausalLM"],
    "model_type": "laguna",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 262144,
    "num_attention_heads": 64,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_theta": 500000.0,
    "sliding_window": 512,
    "vocab_size": 100352,
    "draft_vocab_size": 100352,
    "layer_types": ["sliding_attention"] * 5,
    "gating": "per-head",
    "num_experts": 0,
    "torch_dtype": "bfloat16",
    "eagle_aux_hidden_state_layer_ids": [2, 14, 26, 34, 40],
    "dflash_config": {
        "block_size": 16,
        "mask_token_id": 12,
        "num_target_layers": 40,
        "target_layer_ids": [1, 13, 25, 33, 39],
        "causal": True,
    },
}

S_2_1_DFLASH: dict[str, Any] = {
    key: value for key, value in XS_2_1_DFLASH.items() if key not in ("attention_bias", "num_experts")
} | {
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "max_position_embeddings": 1048576,
    "num_attention_heads": 72,
    "num_hidden_layers": 6,
    "sliding_windows": [512] * 6,
    "layer_types": ["sliding_attention"] * 6,
    "eagle_aux_hidden_state_layer_ids": [2, 11, 20, 30, 39, 48],
    "dflash_config": XS_2_1_DFLASH["dflash_config"]
    | {"num_target_layers": 48, "target_layer_ids": [1, 10, 19, 29, 38, 47]},
}

XS_2_SPECULATOR: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "speculators_model_type": "dflash",
    "speculators_config": {"algorithm": "dflash", "proposal_methods": [{"speculative_tokens": 7}]},
    "draft_vocab_size": 32000,
    "block_size": 8,
    "mask_token_id": 12,
    "aux_hidden_state_layer_ids": [1, 9, 17, 36, 39],
    "transformer_layer_config": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 5,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 100352,
    },
}
