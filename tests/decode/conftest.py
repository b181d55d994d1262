"""MLX's rule for every thread that ran it."""

from collections.abc import Iterator

import mlx.core as mx
import pytest


@pytest.fixture(scope="session", autouse=True)
def streams_are_cleared() -> Iterator[None]:
    """A thread that ran MLX clears its streams before it ends, or the process aborts."""
    yield
    mx.clear_streams()
