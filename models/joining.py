"""Several projections of one input as one matrix product, without a second copy of their weights."""

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

Projection = nn.Linear | nn.QuantizedLinear


def join(parts: Sequence[nn.Module]) -> Projection | None:
    """One layer whose outputs are those of `parts` side by side; the parts become views of its evaluated arrays.

    Weights [out_i, in] of one dtype or one packing become [sum of out_i, in], bit for bit. None where they cannot be
    joined: another kind of layer, a bias, or differently packed.
    """
    if any("bias" in part for part in parts):
        return None
    whole = _empty_like(parts)
    if whole is None:
        return None
    for name in ("weight", "scales", "biases"):
        arrays = [part[name] for part in parts if part.get(name) is not None]
        if not arrays:
            continue
        whole[name] = mx.concatenate(arrays, axis=0)
        mx.eval(whole[name])
        start = 0
        for part, array in zip(parts, arrays, strict=True):
            part[name] = rows(whole[name], start, start + array.shape[0])
            start += array.shape[0]
    return whole


def rows(array: mx.array, start: int, stop: int) -> mx.array:
    """Rows [stop - start, ...] of an evaluated array; contiguous ones share its memory."""
    view = array[start:stop]
    mx.eval(view)
    return view


def _empty_like(parts: Sequence[nn.Module]) -> Projection | None:
    """A layer of the kind that all parts are, to be filled."""
    if all(type(part) is nn.Linear for part in parts):
        return nn.Linear(1, 1, bias=False)
    packed = [part for part in parts if type(part) is nn.QuantizedLinear]
    formats = {(part.group_size, part.bits, part.mode) for part in packed}
    if len(packed) < len(parts) or len(formats) != 1:
        return None
    group_size, bits, mode = formats.pop()
    empty = nn.QuantizedLinear(group_size, 1, bias=False, group_size=group_size, bits=bits, mode=mode)
    for name in ("weight", "scales", "biases"):
        empty.pop(name, None)
    return empty
