"""Joined projections: the same numbers, one product, no second copy."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from models.joining import Projection, join

INPUT = 64


def layers(bits: int | None) -> list[Projection]:
    """Three projections of 64 inputs, packed or not."""
    plain = [nn.Linear(INPUT, size, bias=False) for size in (96, 32, 5)]
    if bits is None:
        return [*plain]
    packed = []
    for layer in plain:
        quantised = layer.to_quantized(32, bits)
        assert isinstance(quantised, nn.QuantizedLinear)
        packed.append(quantised)
    return packed


def numbers(array: mx.array) -> np.ndarray:
    return np.array(array)


@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("count", [1, 3])
def test_a_joined_layer_gives_the_outputs_side_by_side(bits: int | None, count: int) -> None:
    parts = layers(bits)
    x = mx.random.normal((count, INPUT), key=mx.random.key(0))
    before = [numbers(part(x)) for part in parts]
    whole = join(parts)
    assert whole is not None
    np.testing.assert_array_equal(numbers(whole(x)), np.concatenate(before, axis=-1))
    for part, expected in zip(parts, before, strict=True):
        np.testing.assert_array_equal(numbers(part(x)), expected)


def test_the_parts_share_the_memory_of_the_whole() -> None:
    parts = [nn.Linear(1024, 1024, bias=False) for _ in range(4)]
    mx.eval([part.parameters() for part in parts])
    before = mx.get_active_memory()
    whole = join(parts)
    assert whole is not None
    assert mx.get_active_memory() - before < 1024 * 1024


def test_what_differs_in_kind_is_left_apart() -> None:
    plain, packed = layers(None), layers(4)
    assert join([plain[0], packed[1]]) is None
    assert join([packed[0], layers(8)[1]]) is None
    assert join([nn.Linear(INPUT, 3), plain[1]]) is None
