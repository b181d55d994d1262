"""What holds for every test: no network, no compiler, no clock on a property, and a clean end for MLX."""

import os
from collections.abc import Iterator

# Both libraries read these when they are first imported.
os.environ["HF_HUB_OFFLINE"] = "1"
# MLX would call the C++ compiler for each fused kernel where there is one, and results are the same without.
os.environ["MLX_DISABLE_COMPILE"] = "1"

import hypothesis
import mlx.core as mx
import pytest

# A machine under load is no fault of the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def _streams() -> Iterator[None]:
    yield
    # A thread that ran MLX and ends without this aborts the process, the main one too.
    mx.clear_streams()
