"""A small random target and speculator, written to a folder in the published layout.

`write_pair(folder)` is what other tests use: per-expert tensors, a fused `qkv_proj`, both `config.json` files and
`generation_config.json`, all from one seed and without MLX. A tokenizer is not part of it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

Shapes = dict[str, tuple[int, ...]]

TARGET: dict[str, Any] = {
    "architectures": ["LagunaForCausalLM"],
    "model_type": "laguna",
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 2,
    "num_attention_heads_per_layer": [2, 4, 2, 4, 2],
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "qkv_bias": False,
    "tie_word_embeddings": False,
    "gating": "per-head",
    "sliding_window": 16,
    "layer_types": ["full_attention", "sliding_attention"] * 2 + ["full_attention"],
    "mlp_only_layers": [0],
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse"],
    "decoder_sparse_step": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "norm_topk_prob": True,
    "moe_routed_scaling_factor": 1.5,
    "moe_apply_router_weight_on_input": False,
    "moe_router_logit_softcapping": 0.0,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "yarn",
            "rope_theta": 500000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "beta_slow": 1.0,
            "beta_fast": 64.0,
            "attention_factor": 1.138629436111989,
            "partial_rotary_factor": 0.5,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
    },
    "bos_token_id": 2,
    "eos_token_id": [2, 24],
    "pad_token_id": 9,
    "torch_dtype": "float16",
}

SPECULATOR: dict[str, Any] = {
    "architectures": ["DFlashLagunaForCausalLM"],
    "model_type": "laguna",
    "attention_bias": False,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0,
    "sliding_window": 24,
    "vocab_size": 97,
    "draft_vocab_size": 97,
    "layer_types": ["sliding_attention"] * 3,
    "gating": "per-head",
    "num_experts": 0,
    "torch_dtype": "float16",
    "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
    "dflash_config": {
        "block_size": 8,
        "mask_token_id": 12,
        "num_target_layers": 5,
        "target_layer_ids": [0, 2, 4],
        "causal": True,
    },
}

GENERATION: dict[str, Any] = {
    "bos_token_id": 2,
    "eos_token_id": [2, 24],
    "pad_token_id": 9,
    "do_sample": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "top_k": 20,
}


def write_pair(
    folder: Path, *, seed: int = 0, speculator: Mapping[str, Any] | None = None, **overrides: object
) -> tuple[Path, Path]:
    """Write a target into `folder` and its speculator into `folder/speculator`; returns both paths.

    Args:
        folder: made if absent.
        seed: of the random weights (float16, the router's bias float32).
        speculator: fields that replace those of `SPECULATOR`.
        overrides: fields that replace those of `TARGET`.
    """
    target_config, draft_config = TARGET | overrides, SPECULATOR | dict(speculator or {})
    drafter = folder / "speculator"
    write_checkpoint(folder, target_config, target_tensors(target_config), seed)
    (folder / "generation_config.json").write_text(json.dumps(GENERATION, indent=1))
    write_checkpoint(drafter, draft_config, speculator_tensors(draft_config), seed + 1)
    return folder, drafter


def write_checkpoint(folder: Path, config: Mapping[str, Any], shapes: Shapes, seed: int) -> None:
    """One `config.json` and one `model.safetensors` of random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    rng = np.random.default_rng(seed)
    tensors = {name: random_tensor(rng, name, shape) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def random_tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Norms around 1, the router's bias small and float32, embeddings of unit size, the rest scaled by fan-in."""
    noise = rng.standard_normal(shape)
    if "norm" in name:
        return (1.0 + 0.2 * noise).astype(np.float16)
    if name.endswith("e_score_correction_bias"):
        return (0.1 * noise).astype(np.float32)
    if name.endswith("embed_tokens.weight"):
        return noise.astype(np.float16)
    return (1.5 * noise / np.sqrt(shape[-1])).astype(np.float16)


def target_tensors(config: Mapping[str, Any]) -> Shapes:
    """The published names and shapes of a target: one tensor an expert, a bare router."""
    vocab, hidden = config["vocab_size"], config["hidden_size"]
    shapes: Shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)
    head_dim, kv_width = config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    for index, heads in enumerate(config["num_attention_heads_per_layer"]):
        layer = f"model.layers.{index}"
        gate_rows = heads * head_dim if config["gating"] == "per-element" else heads
        attention = {
            "q_proj.weight": (heads * head_dim, hidden),
            "k_proj.weight": (kv_width, hidden),
            "v_proj.weight": (kv_width, hidden),
            "o_proj.weight": (hidden, heads * head_dim),
            "q_norm.weight": (head_dim,),
            "k_norm.weight": (head_dim,),
            "g_proj.weight": (gate_rows, hidden),
        }
        shapes |= {f"{layer}.self_attn.{name}": shape for name, shape in attention.items()}
        shapes |= {f"{layer}.{name}.weight": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        if config["mlp_layer_types"][index] == "dense":
            shapes |= feed_forward(f"{layer}.mlp", hidden, config["intermediate_size"])
        else:
            shapes |= expert_tensors(f"{layer}.mlp", config)
    return shapes


def expert_tensors(mlp: str, config: Mapping[str, Any]) -> Shapes:
    """Router, experts and shared expert of one sparse layer."""
    hidden, count = config["hidden_size"], config["num_experts"]
    shapes: Shapes = {
        f"{mlp}.gate.weight": (count, hidden),
        f"{mlp}.experts.e_score_correction_bias": (count,),
    }
    for expert in range(count):
        shapes |= feed_forward(f"{mlp}.experts.{expert}", hidden, config["moe_intermediate_size"])
    return shapes | feed_forward(f"{mlp}.shared_expert", hidden, config["shared_expert_intermediate_size"])


def feed_forward(prefix: str, hidden: int, width: int) -> Shapes:
    """The three projections of a gated unit."""
    return {
        f"{prefix}.gate_proj.weight": (width, hidden),
        f"{prefix}.up_proj.weight": (width, hidden),
        f"{prefix}.down_proj.weight": (hidden, width),
    }


def speculator_tensors(config: Mapping[str, Any]) -> Shapes:
    """The published names and shapes of a speculator: 10 tensors a layer, one norm a tap, and three more."""
    hidden, taps = config["hidden_size"], len(config["dflash_config"]["target_layer_ids"])
    heads, kv_heads, head_dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    shapes: Shapes = {
        "fc.weight": (hidden, taps * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    shapes |= {f"aux_hidden_norms.{tap}.weight": (hidden,) for tap in range(taps)}
    for index in range(config["num_hidden_layers"]):
        layer = f"layers.{index}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.self_attn.qkv_proj.weight": ((heads + 2 * kv_heads) * head_dim, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, heads * head_dim),
            f"{layer}.self_attn.g_proj.weight": (heads, hidden),
            f"{layer}.self_attn.q_norm.weight": (head_dim,),
            f"{layer}.self_attn.k_norm.weight": (head_dim,),
        }
        shapes |= feed_forward(f"{layer}.mlp", hidden, config["intermediate_size"])
    return shapes
