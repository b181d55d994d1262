"""Opened weights made ready to run: the dtype, joined projections, then every array read, one module after another."""

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path
from mlx_lm.models.switch_layers import QuantizedSwitchLinear

from models.attention import Attention
from models.dflash_laguna import DFlashLaguna
from models.laguna import Laguna
from models.memory import Footprint, footprint
from models.progress import Progress, Report, unreported
from models.scaled import DIVISOR

_PACKED = (nn.QuantizedLinear, nn.QuantizedEmbedding, QuantizedSwitchLinear)
"""Layers whose weights are integers."""

_EXACT = ("e_score_correction_bias", DIVISOR)
"""Tensors with these endings are float32 at any run dtype: a choice between experts, a scale of a whole tensor."""


def make_ready(model: nn.Module, dtype: mx.Dtype) -> None:
    """Give opened weights the form in which they run, none of them read yet."""
    cast_parameters(model, dtype)
    if isinstance(model, DFlashLaguna):
        model.join()


def check_kinds(model: nn.Module) -> None:
    """Packed weights are words, their scales floats or bytes, all else is floats; by shape one could pass for another.

    Raises:
        ValueError: the first tensor of another kind, by its name.
    """
    for path, module in model.named_modules():
        for name, value in module.items():
            wanted = _kind(module, name)
            if isinstance(value, mx.array) and not mx.issubdtype(value.dtype, wanted):
                found = str(value.dtype).removeprefix("mlx.core.")
                meant = "floats" if wanted == mx.floating else str(wanted).removeprefix("mlx.core.")
                raise ValueError(f"{path}.{name} is of {found}, and this network reads {meant} there")


def _kind(module: nn.Module, name: str) -> mx.Dtype | mx.DtypeCategory:
    """What one of a module's arrays is made of."""
    if isinstance(module, _PACKED) and name == "weight":
        return mx.uint32
    return mx.uint8 if isinstance(module, _PACKED) and name == "scales" and module.mode != "affine" else mx.floating


def cast_parameters(model: nn.Module, dtype: mx.Dtype) -> None:
    """Give every floating parameter `dtype`; packed ones stay, and what decides between experts is float32."""

    def cast(path: str, value: mx.array) -> mx.array:
        if not mx.issubdtype(value.dtype, mx.floating):
            return value
        return value.astype(mx.float32 if path.endswith(_EXACT) else dtype)

    model.update(tree_map_with_path(cast, model.parameters()))


def held_bytes(model: nn.Module) -> int:
    """What a network that was made ready takes once it is evaluated: parameters, and tables that are none.

    Afterwards it says more: projections that were joined and their parts share memory, and would count twice.
    """
    return sum(array.nbytes for module in _modules(model) for array in _arrays(module))


def weigh(target: Laguna, speculator: DFlashLaguna | None, dtype: mx.Dtype) -> Footprint:
    """What a pair that was made ready, and not read yet, will take."""
    return footprint(
        target.config,
        None if speculator is None else speculator.config,
        width=dtype.size,
        target_weights=held_bytes(target),
        speculator_weights=0 if speculator is None else held_bytes(speculator),
    )


def evaluate(model: nn.Module, report: Report = unreported) -> None:
    """Evaluate every array of every module, also tables that are no parameters: a lazy one is bound to this thread.

    One module after another: what its weights are unpacked, stacked or joined from is gone before the next one's is
    read. `report` is told of the bytes after each, as those of a target or of a speculator.
    """
    what = "speculator" if isinstance(model, DFlashLaguna) else "target"
    done, total = 0, held_bytes(model)
    for module in _modules(model):
        done += sum(array.nbytes for array in _arrays(module))
        if isinstance(module, Attention):
            module.join()
        mx.eval(_arrays(module))
        report(Progress("load", what, done, total))
    # What unpacking left over would stay beside the weights for as long as the process lives.
    mx.clear_cache()


def _modules(model: nn.Module) -> list[nn.Module]:
    """All of them; one that two others hold counts once."""
    return list({id(module): module for module in model.modules()}.values())


def _arrays(module: nn.Module) -> list[mx.array]:
    """A module's own, without its children's."""
    return [value for value in module.values() if isinstance(value, mx.array)]
