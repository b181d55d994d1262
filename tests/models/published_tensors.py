"""Names, dtypes and shapes of every tensor in a published checkpoint, in each of its layouts; no values."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.models.tiny_checkpoint import speculator_tensors, target_tensors

Shape = tuple[int, ...]
Tensors = dict[str, tuple[str, Shape]]
"""dtype's name in the file, and shape."""

Parts = dict[str, tuple[str, Shape]]
Packer = Callable[[Shape], Parts]
"""The tensors, by suffix, of a weight [..., out, in]."""

ROUTED = r"\.experts\.\d+\."
SHARED = r"\.shared_expert\."
DENSE = r"layers\.\d+\.mlp\.(?:gate|up|down)_proj"


def plain(config: Mapping[str, Any]) -> Tensors:
    """A target in bfloat16: one tensor an expert, the router's bias float32."""
    layers = config["num_hidden_layers"]
    dense = config["mlp_only_layers"]
    spelled = {
        "num_attention_heads_per_layer": [config["num_attention_heads"]] * layers,
        "mlp_layer_types": ["dense" if layer in dense else "sparse" for layer in range(layers)],
    }
    shapes = target_tensors(spelled | dict(config))
    return {name: ("F32" if name.endswith("correction_bias") else "BF16", shape) for name, shape in shapes.items()}


def speculator(config: Mapping[str, Any]) -> Tensors:
    """A speculator in bfloat16."""
    return {name: ("BF16", shape) for name, shape in speculator_tensors(config).items()}


def packed(tensors: Tensors, *rules: tuple[str, Packer]) -> Tensors:
    """The same with those weights packed whose names match a rule; the first one counts."""
    compiled = [(re.compile(pattern), packer) for pattern, packer in rules]
    out: Tensors = {}
    for name, (dtype, shape) in tensors.items():
        packer = next((packer for pattern, packer in compiled if pattern.search(name)), None)
        if packer is None or len(shape) < 2:
            out[name] = dtype, shape
        else:
            out |= {f"{name.removesuffix('.weight')}.{part}": found for part, found in packer(shape).items()}
    return out


def with_cache_scales(tensors: Tensors) -> Tensors:
    """And the scales of an 8-bit key-value cache."""
    attentions = {name.removesuffix("q_proj.weight") for name in tensors if name.endswith("q_proj.weight")}
    return tensors | {f"{path}{end}": ("F32", (1,)) for path in attentions for end in ("k_scale", "v_scale")}


def for_mlx(tensors: Tensors, *, router: str = "gate", prefix: str = "") -> Tensors:
    """Experts stacked, the router under its name of either kind, its bias beside it, and a wrapper's prefix."""
    out: Tensors = {}
    counts: dict[str, int] = {}
    for name, (dtype, shape) in tensors.items():
        name = name.replace(".experts.e_score", ".gate.e_score").replace(".mlp.gate.weight", f".mlp.{router}.weight")
        if stack := re.fullmatch(r"(.*)\.experts\.\d+\.(.*)", name):
            name = f"{stack[1]}.switch_mlp.{stack[2]}"
            counts[name] = counts.get(name, 0) + 1
            shape = (counts[name], *shape)
        out[prefix + name] = dtype, shape
    return out


def int_packed(bits: int, group: int, *, with_shape: bool = True) -> Packer:
    """compressed-tensors `pack-quantized`."""

    def parts(shape: Shape) -> Parts:
        rows, columns = shape
        stored: Parts = {
            "weight_packed": ("I32", (rows, columns * bits // 32)),
            "weight_scale": ("BF16", (rows, columns // group)),
        }
        return stored | ({"weight_shape": ("I64", (2,))} if with_shape else {})

    return parts


def fp4_packed(shape: Shape) -> Parts:
    """compressed-tensors `nvfp4-pack-quantized`."""
    rows, columns = shape
    return {
        "weight_packed": ("U8", (rows, columns // 2)),
        "weight_scale": ("F8_E4M3", (rows, columns // 16)),
        "weight_global_scale": ("F32", (1,)),
        "input_global_scale": ("F32", (1,)),
    }


def fp8_packed(shape: Shape) -> Parts:
    """compressed-tensors `float-quantized` in blocks of 128 by 128."""
    rows, columns = shape
    return {"weight": ("F8_E4M3", shape), "weight_scale": ("F32", (-(-rows // 128), -(-columns // 128)))}


def mlx_affine(bits: int, group: int) -> Packer:
    """MLX's affine packing."""

    def parts(shape: Shape) -> Parts:
        scales = (*shape[:-1], shape[-1] // group)
        words = (*shape[:-1], shape[-1] * bits // 32)
        return {"weight": ("U32", words), "scales": ("BF16", scales), "biases": ("BF16", scales)}

    return parts


def mlx_fp4(shape: Shape) -> Parts:
    """MLX's `nvfp4`."""
    return {"weight": ("U32", (*shape[:-1], shape[-1] // 8)), "scales": ("U8", (*shape[:-1], shape[-1] // 16))}
