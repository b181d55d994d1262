"""What published configurations say about packed weights: `quantization_config` and `quantization` of each variant.

No file is copied: methods, formats, group sizes, layers and places are those that public code and model cards state.
"""

from typing import Any

R1: dict[str, Any] = {
    "config_groups": {
        "R1": {
            "type": "hadamard",
            "head_dim": 128,
            "randomize": False,
            "requires_grad": False,
            "apply": [
                {"location": "weight_output", "inverse": False, "targets": ["re:.*o_proj$", "re:.*down_proj$"]},
                {
                    "location": "weight_input",
                    "inverse": True,
                    "targets": ["re:.*[qkvg]_proj$", "re:.*(gate|up)_proj$", "re:.*mlp.gate$", "lm_head"],
                },
            ],
        }
    }
}
"""A rotation of the residual stream in blocks of 128, already multiplied into the weights."""

KV_SCHEME: dict[str, Any] = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
ATTENTION = [r"re:.*\.self_attn\.[qkvog]_proj$"]
KEPT = ["lm_head", *ATTENTION, r"re:.*\.mlp\.gate$"]
"""Attention, router and head are bfloat16 in every published target."""
SHARED, DENSE = r"re:.*\.mlp\.shared_expert\..*", r"re:.*layers\.0\.mlp\.(gate|up|down)_proj$"


def container(kind: str, *groups: dict[str, Any], ignore: list[str], **more: object) -> dict[str, Any]:
    """The outer part of compressed-tensors settings, as a field of `config.json`."""
    named = {f"group_{index}": group for index, group in enumerate(groups)}
    stated = {"quant_method": "compressed-tensors", "format": kind, "quantization_status": "compressed"}
    return {"quantization_config": stated | {"config_groups": named, "ignore": ignore} | more}


def integers(bits: int, size: int, *targets: str) -> dict[str, Any]:
    """A group of signed integers."""
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": size}
    return {"targets": list(targets), "input_activations": None, "weights": weights | {"actorder": None}}


def fp4() -> dict[str, Any]:
    """The group of 4-bit floats."""
    weights = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16}
    activations = weights | {"dynamic": "local"}
    form = "nvfp4-pack-quantized"
    return {"targets": ["Linear"], "format": form, "weights": weights, "input_activations": activations}


def fp8() -> dict[str, Any]:
    """The group of 8-bit floats in blocks."""
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "block", "block_structure": [128, 128]}
    activations = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "group", "group_size": 128}
    return {"targets": ["Linear"], "weights": weights, "input_activations": activations | {"dynamic": True}}


EARLY = r"re:.*layers\.(?:[1-9]|[12][0-9]|30)\.mlp\..*(gate_proj|up_proj|down_proj)$"
LATE = r"re:.*layers\.(?:3[1-9])\.mlp\..*(gate_proj|up_proj|down_proj)$"

XS_INT4 = container(
    "pack-quantized",
    integers(4, 128, EARLY),
    integers(8, 128, LATE),
    ignore=[*KEPT, SHARED, DENSE],
    transform_config=R1,
)
S_INT4 = container("pack-quantized", integers(4, 32, r"re:.*\.mlp\.experts\..*"), ignore=[*KEPT, SHARED, DENSE])

XS_2_NVFP4 = container("nvfp4-pack-quantized", fp4(), ignore=KEPT, kv_cache_scheme=KV_SCHEME)
XS_2_1_NVFP4 = container("nvfp4-pack-quantized", fp4(), ignore=[*KEPT, DENSE], kv_cache_scheme=KV_SCHEME)
S_NVFP4 = container("nvfp4-pack-quantized", fp4(), ignore=[*KEPT, SHARED, DENSE], kv_cache_scheme=KV_SCHEME)
S_NVFP4_LATE_PLAIN = container(
    "nvfp4-pack-quantized",
    fp4(),
    ignore=[*KEPT, SHARED, DENSE, r"re:.*layers\.4[0-7]\.mlp\.experts\..*"],
    kv_cache_scheme=KV_SCHEME,
)
"""Two projects' models of the file leave the experts of the last eight layers plain."""

XS_FP8 = container("float-quantized", fp8(), ignore=KEPT, kv_cache_scheme=KV_SCHEME, transform_config=R1)
M_FP8 = container("float-quantized", fp8(), ignore=KEPT, kv_cache_scheme=KV_SCHEME)
S_FP8 = container("float-quantized", fp8(), ignore=[*KEPT, SHARED, DENSE], kv_cache_scheme=KV_SCHEME)

MLX_NVFP4: dict[str, Any] = {"group_size": 16, "bits": 4, "mode": "nvfp4"}
NVFP4_MLX: dict[str, Any] = {"quantization": MLX_NVFP4, "quantization_config": MLX_NVFP4}


def affine(bits: int, size: int) -> dict[str, Any]:
    """MLX's affine packing, under both names as mlx-lm writes it."""
    stated = {"group_size": size, "bits": bits, "mode": "affine"}
    return {"quantization": stated, "quantization_config": stated}
