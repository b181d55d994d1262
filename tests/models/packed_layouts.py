"""Targets written in packed layouts, byte for byte, beside the same weights unpacked: all in numpy, without MLX.

A packer takes one float32 matrix [out, in] and returns its tensors under their suffixes, and what they stand for.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from models.contract import Row
from models.laguna import Laguna
from tests.models.tiny_checkpoint import TARGET, random_tensor, target_tensors

ROUTED, MLP = r"\.experts\.", r"\.mlp\.(?!gate$)"
"""Modules of the routed experts, and all of the feed-forward layers but the router."""
Stored = tuple[str, np.ndarray]
"""The dtype's name in the file, and an array whose bytes are the tensor's."""

Packer = Callable[[np.ndarray], tuple[dict[str, Stored], np.ndarray]]

WIDE: dict[str, Any] = TARGET | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "head_dim": 32,
    "torch_dtype": "bfloat16",
}
"""The small target in sizes that divide into groups of 128."""

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)


def e4m3_values() -> np.ndarray:
    """What each byte means as an 8-bit float of 4 exponent bits [256]; 0x7F and 0xFF are no numbers."""
    byte = np.arange(256)
    exponent, mantissa = (byte >> 3) & 15, (byte & 7) / 8
    size = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent - 7))
    size[[0x7F, 0xFF]] = np.nan
    return np.where(byte < 128, size, -size)


def e4m3(values: np.ndarray) -> np.ndarray:
    """The byte nearest to each value."""
    table = e4m3_values()[:127]
    nearest = np.searchsorted((table[1:] + table[:-1]) / 2, np.abs(values))
    return (nearest + 128 * (values < 0)).astype(np.uint8)


def bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers: bfloat16, cut."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(halves: np.ndarray) -> np.ndarray:
    """bfloat16 bits to float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def integers(bits: int, group: int, *, shape: bool = True) -> Packer:
    """compressed-tensors `pack-quantized`: symmetric, half the range added, lowest bits first."""

    def pack(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
        rows, columns = weight.shape
        grouped, half = weight.reshape(rows, -1, group), 2 ** (bits - 1)
        scale = bf16(np.abs(grouped).max(-1) / (half - 0.5))
        step = from_bf16(scale)[..., None]
        codes = np.clip(np.round(grouped / step), -half, half - 1)
        words = (codes.reshape(rows, -1, 32 // bits) + half).astype(np.uint32)
        packed = (words << (bits * np.arange(32 // bits, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)
        stored = {"weight_packed": ("I32", packed), "weight_scale": ("BF16", scale)}
        if shape:
            stored["weight_shape"] = ("I64", np.array([rows, columns]))
        return stored, (codes * step).reshape(rows, columns)

    return pack


def asymmetric(bits: int, group: int) -> Packer:
    """compressed-tensors `pack-quantized` with zero points: codes packed along a row, zero points along a column."""

    def pack(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
        rows, columns = weight.shape
        grouped, lanes = weight.reshape(rows, -1, group), 32 // bits
        low, high = np.minimum(grouped.min(-1), 0), np.maximum(grouped.max(-1), 0)
        scale = bf16((high - low) / (2**bits - 1))
        step = from_bf16(scale)[..., None]
        zero = np.clip(np.round(-low[..., None] / step), 0, 2**bits - 1).astype(np.uint32)
        codes = np.clip(np.round(grouped / step) + zero, 0, 2**bits - 1).astype(np.uint32)
        shifts = bits * np.arange(lanes, dtype=np.uint32)
        packed = (codes.reshape(rows, -1, lanes) << shifts).sum(-1, dtype=np.uint32).view(np.int32)
        columns_of_zeros = np.pad(zero[..., 0], ((0, -rows % lanes), (0, 0))).reshape(-1, lanes, columns // group)
        zeros = (columns_of_zeros << shifts[:, None]).sum(1, dtype=np.uint32).view(np.int32)
        stored = {
            "weight_packed": ("I32", packed),
            "weight_scale": ("BF16", scale),
            "weight_zero_point": ("I32", zeros),
            "weight_shape": ("I64", np.array([rows, columns])),
        }
        return stored, ((codes.astype(np.float64) - zero) * step).reshape(rows, columns)

    return pack


def nvfp4(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
    """compressed-tensors `nvfp4-pack-quantized`: one global number divides all, 16 weights share an e4m3 scale."""
    rows, columns = weight.shape
    grouped = weight.astype(np.float64).reshape(rows, -1, 16)
    whole = np.float32(448 * 6 / np.abs(weight).max())
    scale = e4m3(np.abs(grouped).max(-1) / 6 * whole)
    step = e4m3_values()[scale][..., None] / np.float64(whole)
    codes = np.abs(np.abs(grouped / np.where(step == 0, 1, step))[..., None] - FP4).argmin(-1)
    values = np.sign(grouped) * FP4[codes] * step
    nibbles = (codes + 8 * (grouped < 0)).reshape(rows, -1, 2).astype(np.uint8)
    stored = {
        "weight_packed": ("U8", nibbles[..., 0] | nibbles[..., 1] << 4),
        "weight_scale": ("F8_E4M3", scale),
        "weight_global_scale": ("F32", np.array([whole])),
        "input_global_scale": ("F32", np.array([3.0], np.float32)),
    }
    return stored, values.reshape(rows, columns)


def fp8(*block: int, flat: bool = False) -> Packer:
    """compressed-tensors `float-quantized`: one float32 scale a block of rows and columns (`flat`: for the matrix)."""

    def pack(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
        height, width = block or weight.shape
        scale = np.zeros((-(-weight.shape[0] // height), -(-weight.shape[1] // width)), np.float32)
        codes, values = np.zeros(weight.shape, np.uint8), np.zeros(weight.shape)
        for row, column in np.ndindex(scale.shape):
            place = slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)
            scale[row, column] = np.abs(weight[place]).max() / 448
            codes[place] = e4m3(weight[place] / scale[row, column])
            values[place] = e4m3_values()[codes[place]] * np.float64(scale[row, column])
        return {"weight": ("F8_E4M3", codes), "weight_scale": ("F32", scale.reshape(-1) if flat else scale)}, values

    return pack


@dataclass(frozen=True)
class Written:
    """Two folders with the same weights, packed and as plain float32."""

    packed: Path
    plain: Path


def write_both(
    folder: Path,
    packer: Callable[[str], Packer | None],
    settings: Mapping[str, Any],
    *,
    extra: Mapping[str, Stored] | None = None,
    prefix: str = "",
    renamed: Callable[[dict[str, Stored]], dict[str, Stored]] = dict,
    **overrides: object,
) -> Written:
    """Write a target twice.

    Args:
        folder: gets `packed/` and `plain/`.
        packer: for a module's published name; None where its weight stays bfloat16.
        settings: fields of `config.json` beside the network's.
        extra: tensors that only the packed file has.
        prefix: before every name of the packed file.
        renamed: what the packed file makes of its tensors at last.
        overrides: fields that replace those of `WIDE`.
    """
    config, rng = WIDE | overrides, np.random.default_rng(5)
    packed: dict[str, Stored] = dict(extra or {})
    plain: dict[str, Stored] = {}
    for name, shape in target_tensors(config).items():
        value, module = random_tensor(rng, name, shape).astype(np.float32), name.removesuffix(".weight")
        chosen = packer(module) if len(shape) == 2 else None
        if chosen is None:
            exact = name.endswith("e_score_correction_bias")
            packed[name] = ("F32", value) if exact else ("BF16", bf16(value))
            plain[name] = ("F32", value if exact else from_bf16(bf16(value)))
        else:
            stored, value = chosen(value)
            packed |= {f"{module}.{suffix}": tensor for suffix, tensor in stored.items()}
            plain[name] = ("F32", value.astype(np.float32))
    written = Written(folder / "packed", folder / "plain")
    write(written.packed, config | dict(settings), {prefix + name: tensor for name, tensor in renamed(packed).items()})
    write(written.plain, config, plain)
    return written


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> None:
    """One `config.json` and one `model.safetensors`, in dtypes that numpy lacks too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    header, start = {}, 0
    for name, (kind, array) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(array).tobytes() for _, array in tensors.values())
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def where(*rules: tuple[str, Packer]) -> Callable[[str], Packer | None]:
    return lambda module: next((packer for pattern, packer in rules if re.search(pattern, module)), None)


def kv_scales(heads: int = 5) -> dict[str, Stored]:
    one = np.array([0.5], np.float32)
    names = [f"model.layers.{layer}.self_attn.{end}" for layer in range(heads) for end in ("k_scale", "v_scale")]
    return dict.fromkeys([*names, "model.layers.0.self_attn.rotary_emb.inv_freq"], ("F32", one))


def logits(model: Laguna, length: int = 40) -> np.ndarray:
    return np.array(model(mx.arange(length), [Row(0, length, model.make_caches(0))]).logits.astype(mx.float32))
