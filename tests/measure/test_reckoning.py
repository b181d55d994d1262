"""What the bench makes of its measurements, on numbers written by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from models.decode.width import Table
from models.device import Device
from models.roofline import Traffic
from models.timing import Cost, costs_of
from server.bench.answers import Answer
from server.bench.measure import Measured
from server.bench.plots import draw
from server.bench.predict import predicted
from server.bench.report import summary, text
from server.bench.tally import Block, Depths, depths

TRAFFIC = Traffic(dense=1000, experts=8000, number=8, active=2, per_token=10, windows=400, window=64, drafting=500)


def cost(rows: int, seconds: float, context: int = 512) -> Cost:
    return Cost(rows, context, seconds, seconds, seconds)


def answer(arm: str, seconds: float, blocks: tuple[Block, ...] = (), plain: int = 0) -> Answer:
    return Answer("code", arm, 500, 21, seconds, 0.1, blocks, plain)  # ty: ignore[invalid-argument-type]


BLOCKS = (Block("code", "answer", 4, 4), Block("code", "answer", 4, 2), Block("code", "thinking", 4, 0))
FOUND = Measured(
    model="some-target",
    speculator="some-drafter",
    speculation_off=None,
    device=Device("a chip", "Metal", "bfloat16", 2, 2**35, 2**34),
    costs=(cost(1, 0.010), cost(3, 0.012), cost(5, 0.016)),
    answers=(
        answer("off", 2.0),
        answer("always", 1.0, BLOCKS),
        answer("auto", 0.8, (Block("code", "answer", 2, 2),), plain=3),
    ),
    traffic=TRAFFIC,
    bandwidth=1e6,
    learned=Table((1, 3, 5)),
)


def test_a_depth_is_judged_only_where_all_before_it_agreed() -> None:
    found = depths(BLOCKS)
    assert found.rates == pytest.approx((2 / 3, 1.0, 0.5, 1.0))
    assert found.blocks == 3
    assert found.expected(1) == 1
    assert found.expected(4) == pytest.approx(1 + 2 / 3 + 2 / 3 + 1 / 3)


def test_depths_that_were_never_seen_are_like_the_deepest_seen() -> None:
    assert Depths((0.5,), 1).expected(4) == pytest.approx(1.875)
    assert Depths((), 0).expected(9) == 1


def test_the_width_that_pays_is_the_one_with_most_tokens_a_second() -> None:
    costs = [cost(1, 1.0), cost(3, 1.5), cost(5, 4.0)]
    found = predicted(costs, 600, Depths((0.8, 0.8), 10))
    assert found.speedups[3] == pytest.approx((1 + 0.8 + 0.64) / 1.5)
    assert found.best == 3
    assert predicted(costs, 600, Depths((0.1,), 10)).best == 1
    assert predicted(costs, 600, Depths((), 0)).speedups == {1: 1.0}


def test_a_prediction_is_made_at_the_nearest_context() -> None:
    costs = [cost(1, 1.0), cost(3, 1.0), cost(1, 1.0, 8192), cost(3, 4.0, 8192)]
    certain = Depths((1.0,), 5)
    assert predicted(costs, 700, certain).best == 3
    assert predicted(costs, 7000, certain).best == 1


def test_calibrated_costs_are_what_the_controller_reads() -> None:
    costs = costs_of([cost(1, 0.01), cost(5, 0.02), cost(5, 0.08, 8192)])
    assert costs.at(0).seconds("plain", 1) == 0.01
    assert costs.at(0).seconds("drafted", 5) == 0.02
    assert costs.at(4).seconds("drafted", 5) == 0.08


def test_a_step_touches_distinct_experts_and_what_its_context_holds() -> None:
    assert TRAFFIC.weights(1) == pytest.approx(1000 + 8000 * 0.25)
    assert TRAFFIC.weights(2) == pytest.approx(1000 + 8000 * (1 - 0.75**2))
    assert TRAFFIC.step(1, 32) == pytest.approx(3000 + 320 + 200)
    assert TRAFFIC.step(1, 640) == pytest.approx(3000 + 6400 + 400)
    assert TRAFFIC.step(2, 0) == pytest.approx(TRAFFIC.weights(2) + 500)
    assert replace(TRAFFIC, number=0, active=0, window=0).step(1, 0) == 1000


def test_the_summary_tells_predicted_and_measured_speed_and_what_was_chosen() -> None:
    (speed,) = summary(FOUND)["speed"]
    assert speed["tokens_per_second"] == pytest.approx({"off": 10.0, "always": 20.0, "auto": 25.0})
    assert (speed["always_measured"], speed["auto_measured"]) == pytest.approx((2.0, 2.5))
    assert speed["always_predicted"] == pytest.approx((1 + 2 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 1.6)
    assert speed["width_that_pays"] == 3
    assert speed["chosen"] == {"1": 0.75, "3": 0.25}
    assert summary(FOUND)["acceptance"]["by_phase"]["thinking"] == {"rates": [0.0], "blocks": 1}


def test_the_roofline_compares_seconds_with_bytes_over_bandwidth() -> None:
    step = summary(FOUND)["roofline"]["steps"][0]
    assert step["bytes"] == 3000 + 5120 + 400
    assert step["least_seconds"] == pytest.approx(8520 / 1e6)
    assert step["reached"] == pytest.approx(0.852)


def test_the_text_shows_every_table() -> None:
    shown = text(FOUND)
    for part in ("some-target with some-drafter", "10.00", "16.00", "code", "(thinking)", "1:75% 3:25%", "85%"):
        assert part in shown


def test_without_a_speculator_the_plain_rate_and_the_reason_are_told() -> None:
    alone = replace(
        FOUND,
        speculator=None,
        speculation_off="none was asked for",
        costs=(cost(1, 0.01),),
        answers=(answer("off", 2.0),),
    )
    assert "nothing was drafted: none was asked for" in text(alone)
    assert summary(alone)["speed"] == []
    assert summary(alone)["tokens_per_second"] == {"code": 10.0}


def test_plots_are_written_as_png(tmp_path: Path) -> None:
    paths = draw(summary(FOUND), tmp_path / "plots")
    assert [path.name for path in paths] == ["time_by_context.png", "acceptance_by_depth.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
