"""The bench of loading: its checkpoints are whole, its figures plausible, its goal named when missed."""

from pathlib import Path

import mlx.core as mx
import pytest

from models.checkpoint import prepare_target
from models.settling import held_bytes
from tests.bench.load import line, measured, missed
from tests.bench.synthetic import KINDS, write

SMALLEST = 1
"""Megabytes; as many experts are written as the router needs."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_synthetic_checkpoint_has_the_tensors_that_its_packing_asks_for(tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind, SMALLEST)
    model = prepare_target(tmp_path, mx.bfloat16)
    whole = (tmp_path / "model.safetensors").stat().st_size
    assert whole * 0.9 < held_bytes(model) < whole * 2.1


def test_a_measurement_tells_seconds_and_shares_of_what_is_held(tmp_path: Path) -> None:
    write(tmp_path, "nvfp4", SMALLEST)
    found = measured(tmp_path, 1)
    assert found["load_seconds"] > 0 < found["read_seconds"]
    assert found["held_mb"] > found["file_mb"] > 10
    assert 1 <= found["peak"] < 3
    assert "peak" in line("nvfp4", found)


def test_a_packing_whose_peak_is_too_high_is_named() -> None:
    good, bad = {"peak": 1.15, "peak_rss": 1.0}, {"peak": 1.2, "peak_rss": 1.3}
    assert missed({"bf16": good}) == []
    assert missed({"bf16": good, "fp8": bad}) == [
        "fp8: peak is 1.200 of the weights, to stay within 1.15",
        "fp8: peak_rss is 1.300 of the weights, to stay within 1.15",
    ]
