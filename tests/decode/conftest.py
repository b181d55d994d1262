"""One random pair for the whole session, and memory that can be counted."""

from collections.abc import Generator

import mlx.core as mx
import pytest

from models.checkpoint import load_speculator, load_target
from tests.decode.random_pair import Pair
from tests.models.tiny_checkpoint import write_pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    target_path, speculator_path = write_pair(tmp_path_factory.mktemp("pair"))
    target = load_target(target_path)
    return Pair(target, load_speculator(speculator_path, target))


@pytest.fixture
def exact_buffers() -> Generator[None]:
    """No buffer is a larger one that was used before."""
    mx.clear_cache()
    limit = mx.set_cache_limit(0)
    yield
    mx.set_cache_limit(limit)
