"""Tensors of a compressed-tensors checkpoint, laid out again as MLX packs them; nothing is rounded a second time.

Layouts: https://github.com/vllm-project/compressed-tensors. The tensors decide how a module is packed, since names in
`targets` and `ignore` follow the program that wrote them; where a group covers the module, it must agree.
"""

from collections.abc import Callable, Mapping
from typing import Never

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.switch_layers import SwitchLinear

from models.naming import Weights, published
from models.packing import Compressed, Scheme

_UNREAD = (
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".input_scale",
    ".output_scale",
    ".input_global_scale",
    ".rotary_emb.inv_freq",
)
"""Scales of activations and of a key-value cache that do not exist here, and a table that the network makes itself."""
_PARTS = ("weight_packed", "weight_scale", "weight_global_scale", "weight_shape", "weight_zero_point", "weight_g_idx")
_GROUPS = (128, 64, 32)
"""Group sizes that MLX's affine kernels have."""
_REPACKED = 64
"""Weights that share a scale and a bias where 8-bit floats are packed again."""


class CompressedError(ValueError):
    """Tensors that contradict each other, the configuration or the network."""


def without_unread(weights: Weights) -> Weights:
    """All tensors but those that no network here reads."""
    return {name: value for name, value in weights.items() if not name.endswith(_UNREAD)}


def relaid(weights: Weights, container: Compressed, widths: Mapping[str, int], fp8_bits: int | None = None) -> Weights:
    """Packed modules as MLX has them: `weight`, `scales`, `biases`, and `divisor` for a global scale (float32).

    Args:
        weights: tensors under the network's names (`models.naming.named`).
        container: what the configuration says.
        widths: inputs of each linear layer, by its path in the network.
        fp8_bits: bits to which 8-bit floats are packed again (affine, groups of 64), which rounds; None: multiplied
            out, at two bytes a weight in bfloat16, since MLX has no floats with their kind of scale.

    Returns:
        Plain tensors as they were, packed ones laid out again.

    Raises:
        CompressedError: a tensor is missing, of another shape, or packed in another way than its group says.
    """
    parts = _by_module(weights)
    out: Weights = {}
    for path, found in parts.items():
        packed = {name: found.pop(name) for name in _PARTS if name in found}
        out |= {f"{path}.{name}" if path else name: value for name, value in found.items()}
        if not packed.keys() - {"weight_shape"}:
            continue
        if "weight" in found:
            packed["weight"] = out.pop(f"{path}.weight")
        module = _Module(path, widths.get(path, 0), packed, container.scheme(published(path)), fp8_bits)
        out |= {f"{path}.{name}": value for name, value in module.relaid().items()}
    return out


def widths(network: nn.Module) -> dict[str, int]:
    """Inputs of every layer whose weights may be packed, by its path."""
    kinds = (nn.Linear, nn.Embedding, SwitchLinear)
    return {path: module.weight.shape[-1] for path, module in network.named_modules() if isinstance(module, kinds)}


class _Module:
    """The tensors of one module, or of a stack of experts: [..., out, in]."""

    def __init__(
        self, path: str, width: int, parts: Weights, scheme: Scheme | None, fp8_bits: int | None = None
    ) -> None:
        self.path = path
        self.width = width
        self.parts = parts
        self.scheme = scheme
        self.fp8_bits = fp8_bits

    def relaid(self) -> Weights:
        """MLX's tensors for whichever of the three layouts this is."""
        if "weight_g_idx" in self.parts:
            self.refuse("weight_g_idx is not read: only packing in the inputs' order is")
        if not self.width:
            self.refuse("its weights are packed, but the network has no linear layer of that name")
        if "weight_packed" in self.parts:
            kind = "nvfp4-pack-quantized" if self.parts["weight_packed"].dtype == mx.uint8 else "pack-quantized"
        elif "weight" in self.parts:
            kind = "float-quantized"
        else:
            self.refuse(f"there is a {min(self.parts)}, but no weight_packed and no weight")
        if self.scheme is not None and self.scheme.format != kind:
            self.refuse(f"its tensors are {kind}, its group says {self.scheme.format}")
        readers: dict[str, Callable[[], Weights]] = {
            "pack-quantized": self.integers,
            "nvfp4-pack-quantized": self.nvfp4,
            "float-quantized": self.fp8,
        }
        return readers[kind]()

    def integers(self) -> Weights:
        """Signed integers stored with half their range added: affine packing with biases of -8 or -128 scales.

        Where zero is another code, biases are that code times the scale, rounded once to the run dtype.
        """
        packed, scales = self.part("weight_packed", mx.int32), self.part("weight_scale")
        bits = packed.shape[-1] * 32 // self.width
        if bits not in (4, 8) or packed.shape[-1] * 32 != bits * self.width:
            self.refuse(f"{packed.shape[-1]} packed words a row do not hold {self.width} weights of 4 or 8 bits")
        if self.scheme is not None and self.scheme.bits != bits:
            self.refuse(f"its tensors have {bits} bits, its group says {self.scheme.bits}")
        group = self.group(scales)
        size = next((size for size in _GROUPS if group % size == 0), None)
        if size is None:
            self.refuse(f"groups of {group} weights cannot be made of MLX's groups of 128, 64 or 32")
        biases = -self._zeros(bits, scales) * scales
        if group != size:
            scales, biases = (mx.repeat(each, group // size, axis=-1) for each in (scales, biases))
        return {"weight": packed.view(mx.uint32), "scales": scales, "biases": biases}

    def _zeros(self, bits: int, scales: mx.array) -> mx.array | float:
        """The code that stands for zero: one for all, or one for each scale (float32), packed along the rows."""
        found = "weight_zero_point" in self.parts
        if self.scheme is not None and self.scheme.symmetric == found:
            self.refuse("it has zero points, its group has none" if found else "its group has zero points, it has none")
        if not found:
            return float(2 ** (bits - 1))
        words, (rows, groups) = self.part("weight_zero_point", mx.int32), scales.shape[-2:]
        if words.shape[-2:] != (-(-rows * bits // 32), groups):
            self.refuse(f"weight_zero_point {words.shape} has no {bits} bits for each of the scales {scales.shape}")
        shifts = mx.arange(0, 32, bits, dtype=mx.uint32)[:, None]
        codes = (words.view(mx.uint32)[..., :, None, :] >> shifts) & (2**bits - 1)
        return codes.reshape(*words.shape[:-2], -1, groups)[..., :rows, :].astype(mx.float32)

    def nvfp4(self) -> Weights:
        """4-bit floats with an 8-bit float scale for 16: the bytes as they are, the global scale kept apart."""
        packed, scales = self.part("weight_packed", mx.uint8), self.part("weight_scale", mx.uint8)
        if packed.shape[-1] * 2 != self.width or self.group(scales) != 16:
            self.refuse(f"shapes {packed.shape} and {scales.shape} are not {self.width} weights a row in groups of 16")
        divisor = self.part("weight_global_scale").astype(mx.float32).reshape(-1)
        return {"weight": packed.view(mx.uint32), "scales": scales, "divisor": divisor}

    def fp8(self) -> Weights:
        """8-bit floats with a scale a block, a row or a matrix, multiplied out in float32."""
        values, scales = self.part("weight", mx.uint8), self.part("weight_scale").astype(mx.float32)
        if values.shape[-1] != self.width:
            self.refuse(f"its rows hold {values.shape[-1]} weights, the network's {self.width}")
        whole = _scaled(mx.from_fp8(values, dtype=mx.float32), *self._blocks(values, scales))
        if self.fp8_bits is None or self.width % _REPACKED:
            return {"weight": whole}
        weight, scales, biases = mx.quantize(whole, _REPACKED, self.fp8_bits)
        return {"weight": weight, "scales": scales, "biases": biases}

    def _blocks(self, values: mx.array, scales: mx.array) -> tuple[mx.array, tuple[int, int]]:
        """Scales [..., rows of blocks, columns of blocks], and the rows and columns of one block."""
        rows, columns = values.shape[-2:]
        default = (128, 128) if scales.shape[-2:] == _blocks(rows, columns, (128, 128)) else None
        block = self.scheme.block if self.scheme is not None else default
        if block is None:
            spread = scales.reshape(*values.shape[:-2], -1, 1)
            if spread.shape[-2] not in (1, rows):
                self.refuse(f"{spread.shape[-2]} scales are neither one nor one for each of {rows} rows")
            return spread, (rows // spread.shape[-2], columns)
        if scales.shape[-2:] != _blocks(rows, columns, block):
            self.refuse(f"scales {scales.shape} are not one for each {block[0]}x{block[1]} block of {values.shape}")
        return scales, block

    def part(self, name: str, dtype: mx.Dtype | None = None) -> mx.array:
        """One of the tensors."""
        if name not in self.parts:
            self.refuse(f"{name} is missing beside {', '.join(sorted(self.parts))}")
        value = self.parts[name]
        if dtype is not None and value.dtype != dtype:
            self.refuse(f"{name} is {value.dtype}, not {dtype}")
        return value

    def group(self, scales: mx.array) -> int:
        """Weights for each scale of a row, as the shapes have it; the group must agree where it says a number."""
        size = self.width // scales.shape[-1]
        if size * scales.shape[-1] != self.width:
            self.refuse(f"{scales.shape[-1]} scales do not divide {self.width} weights")
        if self.scheme is not None and self.scheme.group_size not in (0, size):
            self.refuse(f"its tensors have groups of {size}, its group says {self.scheme.group_size}")
        return size

    def refuse(self, why: str) -> Never:
        raise CompressedError(f"{published(self.path)}: {why}")


def _scaled(values: mx.array, scales: mx.array, block: tuple[int, int]) -> mx.array:
    """[..., rows, columns] times one scale a block; whole blocks need no second array of that size."""
    rows, columns = values.shape[-2:]
    if rows % block[0] or columns % block[1]:
        return values * mx.repeat(mx.repeat(scales, block[0], axis=-2), block[1], axis=-1)[..., :rows, :columns]
    tall, wide = scales.shape[-2:]
    blocks = values.reshape(*values.shape[:-2], tall, block[0], wide, block[1])
    return (blocks * scales[..., :, None, :, None]).reshape(values.shape)


def _blocks(rows: int, columns: int, block: tuple[int, int]) -> tuple[int, int]:
    return -(-rows // block[0]), -(-columns // block[1])


def _by_module(weights: Weights) -> dict[str, Weights]:
    """Tensors by the module that owns them, in the order of the file."""
    modules: dict[str, Weights] = {}
    for name, value in weights.items():
        path, _, suffix = name.rpartition(".")
        modules.setdefault(path, {})[suffix] = value
    return modules
