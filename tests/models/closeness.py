"""How equal equal numbers are here.

MLX's bundled BLAS multiplies a row alike alone and among others, so cutting a text differently changes no bit. Other
libraries and GPUs choose their kernel by shape; there the same tests hold up to rounding.
"""

from functools import cache

import mlx.core as mx
import numpy as np

ROUNDING = 2e-3
"""Largest difference of float32 logits of about 10, after kernels that round in another order."""


@cache
def rows_are_exact() -> bool:
    """Whether a row's products have the same bits however many rows are multiplied at once."""
    for inputs, outputs in ((32, 97), (32, 40), (64, 32), (96, 32), (40, 32), (300, 50)):
        x, weight = (mx.random.normal((rows, inputs), key=mx.random.key(rows)) for rows in (33, outputs))
        whole = np.array(x @ weight.T)
        if not all(np.array_equal(np.array(x[:rows] @ weight.T), whole[:rows]) for rows in (1, 2, 3, 5, 8, 16)):
            return False
    return True


def assert_same(got: mx.array | np.ndarray, expected: mx.array | np.ndarray, exactly: float = 0.0) -> None:
    """Equal up to `exactly` with the bundled BLAS, and up to `ROUNDING` elsewhere."""
    tolerance = exactly if rows_are_exact() else max(exactly, ROUNDING)
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=0, atol=tolerance)
