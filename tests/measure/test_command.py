"""`laguna bench` on the embedded pair."""

import json
import sys
from pathlib import Path

import mlx.core as mx
import pytest
from click.testing import CliRunner

from models.decode.acceptance import Subject
from models.loading import Loading
from models.roofline import bandwidth
from models.runtime import load_runtime
from models.timing import calibrate
from server.cli import main


def test_it_measures_the_embedded_pair_and_writes_everything(tmp_path: Path) -> None:
    figures, learned = tmp_path / "bench.json", tmp_path / "calibration.json"
    options = ["--tokens", "16", "--context", "24", "--context", "80", "--repeats", "1"]
    ended = CliRunner().invoke(
        main, ["bench", *options, "--json", str(figures), "--plots", str(tmp_path), "--calibration", str(learned)]
    )
    assert ended.exit_code == 0, ended.output
    assert "milliseconds a round" in ended.output
    facts = json.loads(figures.read_text())
    assert {cost["context"] for cost in facts["calibration"]} == {24, 80}
    assert all(cost["seconds"] > 0 for cost in facts["calibration"])
    assert {speed["kind"] for speed in facts["speed"]} == {"prose", "code", "edit", "tool calls", "thinking"}
    assert all(speed["tokens_per_second"]["off"] > 0 for speed in facts["speed"])
    assert facts["acceptance"]["by_kind"]["tool calls"]["blocks"] > 0
    assert facts["roofline"]["bandwidth"] > 0
    assert (tmp_path / "time_by_context.png").exists()
    table = load_runtime(loading=Loading(calibration=learned)).batch().learned
    assert table.costs.at(0).seconds("drafted", 16) is not None
    assert table.record.of(Subject("speculator", "arguments")).expected(4) > 1
    assert table.reading.usually()
    assert table.reading.beyond()


def test_a_checkpoint_that_is_not_there_is_a_message_and_status_1() -> None:
    ended = CliRunner().invoke(main, ["bench", "/nowhere/at/all", "none"])
    assert ended.exit_code == 1
    assert "/nowhere/at/all" in ended.output


def test_plots_without_matplotlib_are_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ended = CliRunner().invoke(main, ["bench", "--plots", str(tmp_path / "plots")])
    assert ended.exit_code == 1
    assert "laguna-server[bench]" in ended.output


def test_a_calibration_leaves_both_networks_where_a_decoded_text_would() -> None:
    runtime = load_runtime()
    text = runtime.tokenizer.encode("one two three four five six seven eight nine ten")
    told: list[tuple[int, int]] = []
    costs = calibrate(
        runtime.target,
        runtime.speculator,
        text,
        widths=(1, 4, 16),
        contexts=(30, 90),
        repeats=2,
        watch=lambda done, total: told.append((done, total)),
    )
    assert [(cost.context, cost.rows) for cost in costs] == [(c, r) for c in (30, 90) for r in (1, 4, 16)]
    assert all(0 < cost.quickest <= cost.seconds <= cost.slowest for cost in costs)
    assert [cost.kind for cost in costs[:3]] == ["plain", "drafted", "drafted"]
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)
    assert calibrate(runtime.target, None, text, widths=(1, 4), contexts=(20,), repeats=1)[0].rows == 1


def test_bandwidth_is_bytes_a_second_and_leaves_nothing_behind() -> None:
    before = mx.get_active_memory()
    assert bandwidth(2**22, 2) > 1e7
    assert mx.get_active_memory() == before
