"""How the weights of a checkpoint are packed, kind by kind, read off its networks before a tensor is read."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from models.checkpoint import open_speculator, open_target, run_dtype
from models.errors import CheckpointError
from models.loading import DEFAULTS, Loading
from models.quantising import quantise, quantising_warnings
from models.settling import held_bytes, make_ready

_KINDS = (
    (re.compile(r"self_attn\."), "attention"),
    (re.compile(r"\.switch_mlp\."), "experts"),
    (re.compile(r"\.shared_expert\."), "shared expert"),
    (re.compile(r"\.mlp\.gate\."), "router"),
    (re.compile(r"\.mlp\."), "dense"),
    (re.compile(r"embed_tokens"), "embedding"),
    (re.compile(r"lm_head"), "head"),
    (re.compile(r"^fc"), "fusion"),
)
_PLAIN = (nn.Linear, nn.Embedding, SwitchLinear)
_PACKED = (nn.QuantizedLinear, nn.QuantizedEmbedding, QuantizedSwitchLinear)


@dataclass(frozen=True)
class Packing:
    """Matrices of one kind that are packed alike; a layer's stack of experts counts as one."""

    kind: str
    """Such as "attention" or "experts"."""
    form: str
    """Such as "affine 4 bit in 64s", or the dtype in the file."""
    count: int


@dataclass(frozen=True)
class Outline:
    """A pair before it is read; what concerns the speculator is empty or 0 without one."""

    target: tuple[Packing, ...]
    """Its matrices, in the order of the network."""
    speculator: tuple[Packing, ...]
    target_bytes: int
    """Of the weights as they will run."""
    speculator_bytes: int
    warnings: tuple[str, ...] = ()
    """Layers that cannot be quantised as asked."""


def outline(target: Path, speculator: Path | None, loading: Loading = DEFAULTS) -> Outline:
    """Open a target, and a speculator over it, and look at their layers; nothing is evaluated.

    Args:
        target: its folder.
        speculator: its folder, where there is one that belongs to the target.
        loading: how the pair would be loaded.

    Raises:
        ConfigError: a field of a configuration that will not do.
        CheckpointError: tensors that are missing, too many, or packed in a way that does not load.
    """
    folder = target
    try:
        network = open_target(target, loading)
        found, held = packings(network), _held(network)
        if speculator is None:
            return Outline(found, (), held, 0)
        folder, bits = speculator, loading.speculator_bits
        drafter = open_speculator(speculator, network)
        if bits is not None:
            quantise(drafter, bits)
        return Outline(found, packings(drafter), held, _held(drafter), quantising_warnings(drafter, bits))
    # MLX raises a bare RuntimeError for what it cannot unpack.
    except RuntimeError as error:
        raise CheckpointError(f"{folder} cannot be opened: {error}") from error


def _held(network: nn.Module) -> int:
    """Bytes once it is evaluated; it is given the form in which it runs, and is of no other use afterwards."""
    make_ready(network, run_dtype())
    return held_bytes(network)


def packings(network: nn.Module) -> tuple[Packing, ...]:
    """Every kind of matrix and each form it has."""
    counted: Counter[tuple[str, str]] = Counter()
    for path, module in network.named_modules():
        form = _form(module)
        if form is not None:
            counted[_kind(path), form] += 1
    order = [kind for _, kind in _KINDS]
    kinds = sorted(counted.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return tuple(Packing(kind, form, count) for (kind, form), count in kinds)


def _kind(path: str) -> str:
    return next(kind for pattern, kind in _KINDS if pattern.search(path))


def _form(module: nn.Module) -> str | None:
    """How a matrix is packed; None where the module is none."""
    if isinstance(module, _PACKED):
        return f"{module.mode} {module.bits} bit in {module.group_size}s"
    if isinstance(module, _PLAIN):
        weight = module.weight
        assert isinstance(weight, mx.array)
        return str(weight.dtype).removeprefix("mlx.core.")
    return None
