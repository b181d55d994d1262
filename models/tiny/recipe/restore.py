"""An exported pair read back into the networks that are trained: the reverse of `export.py`, for going on."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from models.tiny.recipe.networks import Experts, Speculator, Target


@torch.no_grad()
def read_target(target: Target, folder: Path) -> None:
    """Fill `target` with the weights of a checkpoint that `write_target` wrote.

    Raises:
        RuntimeError: a weight is missing, unknown or of another shape.
    """
    tensors = {
        name.removeprefix("model."): tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()
    }
    for i, layer in enumerate(target.layers):
        if isinstance(layer.mlp, Experts):
            _join_experts(tensors, f"layers.{i}.mlp", layer.mlp.shape.experts)
    target.load_state_dict(tensors)


@torch.no_grad()
def read_speculator(speculator: Speculator, folder: Path) -> None:
    """Fill `speculator` with the weights of a checkpoint that `write_speculator` wrote.

    Raises:
        RuntimeError: a weight is missing, unknown or of another shape.
    """
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    shape = speculator.shape
    rows = [shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.kv_heads * shape.head_dim]
    for i in range(shape.layers):
        prefix = f"layers.{i}.self_attn"
        for name, part in zip("qkv", tensors.pop(f"{prefix}.qkv_proj.weight").split(rows), strict=True):
            tensors[f"{prefix}.{name}_proj.weight"] = part
    speculator.load_state_dict(tensors)


def _join_experts(tensors: dict[str, Tensor], prefix: str, experts: int) -> None:
    """One tensor for all experts where the checkpoint has one each."""
    tensors[f"{prefix}.router.weight"] = tensors.pop(f"{prefix}.gate.weight")
    tensors[f"{prefix}.bias"] = tensors.pop(f"{prefix}.experts.e_score_correction_bias")
    parts = {
        name: [tensors.pop(f"{prefix}.experts.{expert}.{name}.weight").T for expert in range(experts)]
        for name in ("gate_proj", "up_proj", "down_proj")
    }
    halves = zip(parts["gate_proj"], parts["up_proj"], strict=True)
    tensors[f"{prefix}.up"] = torch.stack([torch.cat(pair, 1) for pair in halves])
    tensors[f"{prefix}.down"] = torch.stack(parts["down_proj"])
