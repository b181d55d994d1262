"""One random pair for the whole session."""

from pathlib import Path

import mlx.core as mx
import pytest

from models.checkpoint import load_speculator, load_target
from models.dflash_laguna import DFlashLaguna
from models.laguna import Laguna
from tests.models.tiny_checkpoint import write_pair


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"))[0]


@pytest.fixture(scope="session")
def target(pair_folder: Path) -> Laguna:
    return load_target(pair_folder, mx.float32)


@pytest.fixture(scope="session")
def speculator(pair_folder: Path, target: Laguna) -> DFlashLaguna:
    return load_speculator(pair_folder / "speculator", target, mx.float32)
