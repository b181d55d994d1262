"""MLX's packings and names, written in numpy, beside what they stand for. Packers are those of `packed_layouts`."""

import re

import numpy as np

from tests.models.packed_layouts import FP4, Packer, Stored, bf16, e4m3, e4m3_values, from_bf16


def words(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes [out, in] as one stream of bits a row, lowest first, in 32-bit words."""
    stream = (codes[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(stream.reshape(codes.shape[0], -1), axis=-1, bitorder="little").view(np.uint32)


def affine(bits: int, group: int) -> Packer:
    """`code * scale + bias`, both bfloat16."""

    def pack(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
        grouped = weight.reshape(weight.shape[0], -1, group)
        low, high = grouped.min(-1), grouped.max(-1)
        scale, bias = bf16((high - low) / (2**bits - 1)), bf16(low)
        step, floor = from_bf16(scale)[..., None], from_bf16(bias)[..., None]
        codes = np.clip(np.round((grouped - floor) / step), 0, 2**bits - 1).astype(np.int64)
        packed = words(codes.reshape(weight.shape), bits)
        stored = {"weight": ("U32", packed), "scales": ("BF16", scale), "biases": ("BF16", bias)}
        return stored, (codes * step + floor).reshape(weight.shape)

    return pack


def nvfp4(weight: np.ndarray) -> tuple[dict[str, Stored], np.ndarray]:
    """4-bit floats, an e4m3 scale for 16."""
    grouped = weight.astype(np.float64).reshape(weight.shape[0], -1, 16)
    scale = e4m3(np.abs(grouped).max(-1) / 6)
    step = e4m3_values()[scale][..., None]
    codes = np.abs(np.abs(grouped / np.where(step == 0, 1, step))[..., None] - FP4).argmin(-1)
    values = np.sign(grouped) * FP4[codes] * step
    packed = words((codes + 8 * (grouped < 0)).reshape(weight.shape), 4)
    return {"weight": ("U32", packed), "scales": ("U8", scale)}, values.reshape(weight.shape)


def stacked(tensors: dict[str, Stored]) -> dict[str, Stored]:
    """The experts of a layer in one tensor each, as `switch_mlp`, and the router's bias beside the router."""
    out: dict[str, Stored] = {}
    experts: dict[str, list[Stored]] = {}
    for name, stored in tensors.items():
        if found := re.fullmatch(r"(.*)\.experts\.\d+\.(.*)", name):
            experts.setdefault(f"{found[1]}.switch_mlp.{found[2]}", []).append(stored)
        else:
            out[name.replace(".experts.e_score", ".gate.e_score")] = stored
    return out | {name: (found[0][0], np.stack([array for _, array in found])) for name, found in experts.items()}


def linear_router(tensors: dict[str, Stored]) -> dict[str, Stored]:
    """Stacked, and the router as `gate.proj`."""
    return {re.sub(r"\.gate\.(?!e_score)", ".gate.proj.", name): found for name, found in stacked(tensors).items()}
