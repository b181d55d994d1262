"""Packed layers whose matrix, or each of whose experts, has one more scale, applied to the output.

NVFP4 divides each matrix by one float32 number. Folding that into the 8-bit scales rounds them again, and MLX's own
`global_scale` runs on GPUs alone and for experts alone; dividing the product is exact to float32 rounding everywhere.
"""

from collections.abc import Iterable

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.models.switch_layers import SwitchLinear

DIVISOR = "divisor"
"""Name of the parameter; float32 at any run dtype."""

_MLX_SCALE = ".global_scale"


class ScaledLinear(nn.Module):
    """`packed(x) / divisor`, with one divisor [1]."""

    def __init__(self, packed: nn.Module) -> None:
        super().__init__()
        self.packed = packed
        self.divisor = mx.ones((1,))

    def __call__(self, x: mx.array) -> mx.array:
        """[T, in] to [T, out] in the dtype of `x`, divided in float32."""
        out = self.packed(x)
        return (out.astype(mx.float32) / self.divisor).astype(out.dtype)


class ScaledExperts(nn.Module):
    """`packed(x, expert) / divisor[expert]`, with divisors [experts]; the face of mlx-lm's SwitchLinear."""

    def __init__(self, packed: SwitchLinear) -> None:
        super().__init__()
        self.packed = packed
        self.divisor = mx.ones((packed.num_experts,))

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        """Rows [..., 1, in] and their experts [...] to [..., 1, out] in the dtype of `x`, divided in float32."""
        out = self.packed(x, indices, sorted_indices=sorted_indices)
        return (out.astype(mx.float32) / self.divisor[indices][..., None, None]).astype(out.dtype)


def divisors(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """MLX's own global scales as divisors: it multiplies by `global_scale / (6 * 448)`, the widest values of both."""
    out = dict(weights)
    for name in [name for name in weights if name.endswith(_MLX_SCALE)]:
        out[f"{name.removesuffix(_MLX_SCALE)}.{DIVISOR}"] = 2688.0 / out.pop(name).astype(mx.float32).reshape(-1)
    return out


def wrap(network: nn.Module, weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Give every layer that has a divisor among `weights` its wrapper; its other tensors move into `packed`.

    Raises:
        ValueError: a divisor for something that is no linear layer.
    """
    paths = {name.removesuffix(f".{DIVISOR}") for name in weights if name.endswith(f".{DIVISOR}")}
    modules = dict(network.named_modules())
    network.update_modules(tree_unflatten([(path, _wrapped(path, modules.get(path))) for path in sorted(paths)]))
    return dict(_inner(weights, paths))


def _wrapped(path: str, module: nn.Module | None) -> nn.Module:
    if isinstance(module, SwitchLinear):
        return ScaledExperts(module)
    if isinstance(module, nn.Linear):
        return ScaledLinear(module)
    raise ValueError(f"{path} has a global scale, but is no linear layer of this network")


def _inner(weights: dict[str, mx.array], paths: set[str]) -> Iterable[tuple[str, mx.array]]:
    for name, value in weights.items():
        path, _, suffix = name.rpartition(".")
        yield (f"{path}.packed.{suffix}" if path in paths and suffix != DIVISOR else name), value
