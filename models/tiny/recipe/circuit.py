"""Initial weights that already copy: an induction circuit by hand, which plain training does not find in time."""

import math

import torch
from torch import Tensor

from models.tiny.recipe.networks import Attention, Experts, Gated, Target

CODE = 40
ONE, TOKEN, PREVIOUS, OUT = slice(0, 1), slice(1, 41), slice(41, 81), slice(81, 121)
# Share of a head's energy in each rotary pair, fastest first: sharp at one distance, nowhere else in the window.
ENERGY = (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)


def write(target: Target, seed: int = 0) -> None:
    """Set the target's weights: layer 1 writes the previous token's code, layer 2 finds it and copies what followed."""
    torch.manual_seed(seed)
    with torch.no_grad():
        _quiet(target)
        codes = torch.randn(target.shape.vocabulary, CODE)
        codes *= math.sqrt(CODE) / codes.norm(dim=-1, keepdim=True)
        target.embed_tokens.weight[:, ONE] = 2.0
        target.embed_tokens.weight[:, TOKEN] = codes
        target.lm_head.weight[:, OUT] = 0.12 * codes
        _look_back(target.layers[1].self_attn)
        _copy(target.layers[2].self_attn)


def _quiet(target: Target) -> None:
    target.embed_tokens.weight.normal_(0, 0.05)
    target.lm_head.weight.normal_(0, 0.02)
    for layer in target.layers:
        attention: Attention = layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            projection.weight.normal_(0, 0.05)
        attention.o_proj.weight.normal_(0, 0.015)
        attention.g_proj.weight.normal_(0, 0.02)
        attention.q_norm.weight.fill_(1.7)
        attention.k_norm.weight.fill_(1.7)
        mlp: Gated | Experts = layer.mlp
        for gated in (mlp,) if isinstance(mlp, Gated) else (mlp.shared_expert,):
            gated.gate_proj.weight.normal_(0, 0.06)
            gated.up_proj.weight.normal_(0, 0.06)
            gated.down_proj.weight.normal_(0, 0.02)


def _at_distance(inverse: Tensor, distance: float) -> Tensor:
    """A query [head_dim] whose match with the key of distance 0 peaks `distance` tokens back."""
    amplitude = torch.zeros(len(inverse))
    amplitude[: len(ENERGY)] = torch.tensor(ENERGY).sqrt()
    angles = -distance * inverse
    return torch.cat((amplitude * angles.cos(), amplitude * angles.sin()))


def _look_back(attention: Attention) -> None:
    """Every head looks 1, 2, 3 or 4 tokens back; the first of each group writes the token's code."""
    size, groups = attention.head_dim, attention.heads // attention.kv_heads
    attention.q_norm.weight.fill_(2.0)
    attention.k_norm.weight.fill_(2.0)
    for kv in range(attention.kv_heads):
        rows = slice(kv * size, (kv + 1) * size)
        attention.k_proj.weight[rows] *= 0.1
        attention.k_proj.weight[rows, ONE] = _at_distance(attention.inverse, 0)[:, None]
        _select(attention.v_proj.weight, kv * size, TOKEN.start + kv * (CODE - size), size)
        for g in range(groups):
            head = kv * groups + g
            rows = slice(head * size, (head + 1) * size)
            attention.q_proj.weight[rows] *= 0.1
            attention.q_proj.weight[rows, ONE] = _at_distance(attention.inverse, 1 + g)[:, None]
    _write_code(attention, PREVIOUS.start)


def _copy(attention: Attention) -> None:
    """The first head of each group matches its token's code with the codes of the previous tokens, and copies."""
    size, groups, turning = attention.head_dim, attention.heads // attention.kv_heads, len(attention.inverse)
    # Dimensions that do not turn, and those that turn too slowly to matter.
    steady = [*range(turning // 2, turning), *range(turning + turning // 2, size)]
    attention.q_norm.weight.fill_(2.0)
    attention.k_norm.weight.fill_(2.0)
    for kv in range(attention.kv_heads):
        matcher = torch.randn(len(steady), CODE) / math.sqrt(CODE)
        head = kv * groups
        attention.q_proj.weight[head * size : (head + 1) * size] *= 0.1
        attention.k_proj.weight[kv * size : (kv + 1) * size] *= 0.1
        for row, weights in zip(steady, matcher, strict=True):
            attention.q_proj.weight[head * size + row, TOKEN] = weights
            attention.k_proj.weight[kv * size + row, PREVIOUS] = weights
        _select(attention.v_proj.weight, kv * size, TOKEN.start + kv * (CODE - size), size)
    _write_code(attention, OUT.start)


def _select(weight: Tensor, row: int, column: int, size: int) -> None:
    """Values of one head are `size` residual dimensions from `column` on."""
    weight[row : row + size] *= 0.1
    weight[torch.arange(row, row + size), torch.arange(column, column + size)] = 0.6


def _write_code(attention: Attention, start: int) -> None:
    """The first heads of both groups write the code: the first its head_dim dimensions, the second what is left."""
    size, groups = attention.head_dim, attention.heads // attention.kv_heads
    left = CODE - size
    weight = attention.o_proj.weight
    weight[:, :size] *= 0.1
    weight[torch.arange(start, start + size), torch.arange(size)] = 1.2
    second = groups * size
    weight[:, second : second + size] *= 0.1
    columns = torch.arange(second + size - left, second + size)
    weight[torch.arange(start + size, start + CODE), columns] = 1.2
