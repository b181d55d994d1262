from collections.abc import Iterator

import mlx.core as mx
import pytest


@pytest.fixture(scope="session", autouse=True)
def streams_cleared() -> Iterator[None]:
    """MLX aborts the process when a thread that used it ends without this, the main one too."""
    yield
    mx.clear_streams()
