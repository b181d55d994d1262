from pathlib import Path
from typing import Any

from tests.bench import plots

DECODED: dict[str, Any] = {
    "greedy": {"always": {"accepted_per_round_by_depth": [0.9, 0.8]}},
    "temperature 0.7": {"accepted_per_round_by_depth": [0.8, 0.6]},
    "temperature 1.2": {"accepted_per_round_by_depth": [0.7, 0.5]},
    "calibration": [
        {"rows": rows, "context": context, "seconds": rows * 0.001} for rows in (1, 4) for context in (64, 512)
    ],
}
SERVED = {"tokens_per_second": {arm: {"1": 10.0, "4": 30.0, "8": 40.0} for arm in ("off", "auto", "mlx_lm")}}


def test_every_bench_draws_its_plots(tmp_path: Path) -> None:
    plots.decoding(tmp_path / "made", {"bundled": DECODED, "openblas": None})
    plots.serving(tmp_path / "made", {"openblas": SERVED})
    made = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert made == ["acceptance_by_depth.png", "throughput_by_streams.png", "time_by_context.png"]
