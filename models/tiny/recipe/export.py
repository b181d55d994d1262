"""Trained weights as checkpoints in the published layout: names, one tensor per expert, fused qkv, float16."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from models.tiny.recipe.networks import Experts, Speculator, Target


def _write(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    half = {
        name: (tensor if name.endswith("e_score_correction_bias") else tensor.half()).contiguous()
        for name, tensor in tensors.items()
    }
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _experts(prefix: str, mlp: Experts) -> dict[str, Tensor]:
    tensors = {
        f"{prefix}.gate.weight": mlp.router.weight,
        f"{prefix}.experts.e_score_correction_bias": mlp.bias,
    }
    for expert in range(mlp.shape.experts):
        gate, up = mlp.up[expert].T.chunk(2)
        named = {"gate_proj": gate, "up_proj": up, "down_proj": mlp.down[expert].T}
        tensors |= {f"{prefix}.experts.{expert}.{name}.weight": tensor for name, tensor in named.items()}
    for name, weight in mlp.shared_expert.named_parameters():
        tensors[f"{prefix}.shared_expert.{name}"] = weight
    return tensors


@torch.no_grad()
def write_target(target: Target, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in target.state_dict().items():
        if ".mlp." not in name:
            tensors[name if name.startswith("lm_head") else f"model.{name}"] = tensor
    for i, layer in enumerate(target.layers):
        prefix = f"model.layers.{i}.mlp"
        if isinstance(layer.mlp, Experts):
            tensors |= _experts(prefix, layer.mlp)
        else:
            tensors |= {f"{prefix}.{name}": weight for name, weight in layer.mlp.named_parameters()}
    _write(folder, tensors, target.shape.config())
    generation = {
        "bos_token_id": 2,
        "eos_token_id": [2, 24],
        "pad_token_id": 9,
        "do_sample": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "min_p": 0.0,
        "top_k": 20,
        "default_chat_template_kwargs": {"enable_thinking": True},
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


@torch.no_grad()
def write_speculator(speculator: Speculator, target: Target, folder: Path) -> None:
    """Write config.json and model.safetensors, with q, k and v fused."""
    tensors = dict(speculator.state_dict())
    for i in range(speculator.shape.layers):
        prefix = f"layers.{i}.self_attn"
        parts = [tensors.pop(f"{prefix}.{name}_proj.weight") for name in "qkv"]
        tensors[f"{prefix}.qkv_proj.weight"] = torch.cat(parts)
    _write(folder, tensors, speculator.shape.config(target.shape))
