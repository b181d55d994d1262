"""Tensors under the network's names, from every spelling that publishers use.

A wrapper's prefix goes, the router becomes a linear layer, and the experts of a layer become one stack, whether they
come one by one (as published), stacked, or as transformers holds them, with `gate_up_proj` in one piece.
"""

import re

import mlx.core as mx

Weights = dict[str, mx.array]

_PREFIX = "language_model."
_EXPERT = re.compile(r"(.*\.mlp)\.experts\.(\d+)\.(\w+\.\w+)")
_FUSED = re.compile(r"(.*\.mlp)\.experts\.(gate_up_proj|down_proj)")
_ROUTER = re.compile(r"(.*\.mlp\.gate)\.(?!proj\.|e_score)(\w+)")
_RENAMED = (
    (".mlp.shared_experts.", ".mlp.shared_expert."),
    (".mlp.experts.e_score", ".mlp.gate.e_score"),
    (".mlp.e_score", ".mlp.gate.e_score"),
)
"""transformers' name of the shared expert; the published place of the router's bias, and one that converters write."""


class NamingError(ValueError):
    """Tensors that do not make whole stacks of experts."""


def named(weights: Weights) -> Weights:
    """All tensors under the network's names; names that are right already stay.

    Args:
        weights: tensors as published, packed or not; experts alone [out, in], stacked [experts, out, in], or fused in
            transformers' order: `gate_up_proj` [experts, gate rows and then up rows, in].

    Raises:
        NamingError: an expert is missing, or the experts of a layer differ in shape or dtype.
    """
    out: Weights = {}
    experts: dict[str, dict[int, mx.array]] = {}
    for name, value in weights.items():
        name = name.removeprefix(_PREFIX)
        if ".mlp." not in name:
            out[name] = value
        elif found := _EXPERT.fullmatch(name):
            mlp, expert, rest = found.groups()
            experts.setdefault(f"{mlp}.switch_mlp.{rest}", {})[int(expert)] = value
        elif found := _FUSED.fullmatch(name):
            out |= _split(f"{found[1]}.switch_mlp", found[2], value)
        else:
            out[_renamed(name)] = value
    return out | {name: _stacked(name, found) for name, found in experts.items()}


def published(path: str) -> str:
    """A module's name in the file, the first one's for a stack of experts."""
    return path.replace(".switch_mlp.", ".experts.0.").replace(".mlp.gate.proj", ".mlp.gate")


def _renamed(name: str) -> str:
    for theirs, ours in _RENAMED:
        name = name.replace(theirs, ours)
    router = _ROUTER.fullmatch(name)
    return f"{router[1]}.proj.{router[2]}" if router else name


def _split(stack: str, projection: str, value: mx.array) -> Weights:
    """Fused experts [experts, rows, in] as one stack a projection."""
    if projection == "down_proj":
        return {f"{stack}.down_proj.weight": value}
    gate, up = mx.split(value, 2, axis=-2)
    return {f"{stack}.gate_proj.weight": gate, f"{stack}.up_proj.weight": up}


def _stacked(name: str, found: dict[int, mx.array]) -> mx.array:
    """One tensor [experts, ...] from the experts' own, by their numbers."""
    lost = next((expert for expert in range(max(found) + 1) if expert not in found), None)
    if lost is not None:
        raise NamingError(f"{name.replace('.switch_mlp.', f'.experts.{lost}.')}: missing, though others have it")
    if len({(value.shape, value.dtype) for value in found.values()}) > 1:
        raise NamingError(f"{published(name)}: the experts of this layer differ in shape or dtype")
    return mx.stack([found[expert] for expert in range(len(found))])
