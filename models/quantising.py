"""Making a speculator's linear layers smaller as it is loaded; what it borrows from the target stays as it is."""

import mlx.nn as nn

from models.dflash_laguna import DFlashLaguna

GROUP = 64
"""Weights that share a scale and a bias."""


def quantise(speculator: DFlashLaguna, bits: int) -> None:
    """Quantise every plain linear layer in place (affine, groups of 64), lazily; packed and odd-sized ones stay."""
    nn.quantize(speculator, GROUP, bits, class_predicate=lambda _, module: _fits(module))


def quantising_warnings(speculator: DFlashLaguna, bits: int | None) -> tuple[str, ...]:
    """Which layers are not of `bits` after they were to be quantised, and why; nothing where `bits` is None."""
    if bits is None:
        return ()
    # A path with an underscore is a product joined from layers that are counted already.
    layers = {path: m for path, m in speculator.named_modules() if _is_linear(m) and "._" not in path}
    left = sorted(path for path, module in layers.items() if not _has_bits(module, bits))
    if not left:
        return ()
    told = (
        f"--quantize-speculator {bits}: {len(left)} of {len(layers)} linear layers of the speculator stay as they are, "
        f"such as {left[0]}: they are packed already, or their inputs are no multiple of {GROUP}."
    )
    return (told,)


def _fits(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.weight.shape[-1] % GROUP == 0


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | nn.QuantizedLinear)


def _has_bits(module: nn.Module, bits: int) -> bool:
    return isinstance(module, nn.QuantizedLinear) and module.bits == bits
