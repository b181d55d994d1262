"""The command: what it prints, as lines, in colours and as JSON, and how it ends."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from server.cli import main
from server.doctor.finding import Finding, known, worst
from server.doctor.report import as_json, coloured, plain
from tests.doctor.conftest import Copied, changed

FINDINGS = [
    Finding("target", "ok", "[bold]found[/bold]"),
    Finding("pair", "warn", "doubtful", "think about it"),
    Finding("template", "fail", "broken", "mend it"),
]


@pytest.fixture(autouse=True)
def _free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGUNA_PORT", "0")


def test_lines_say_level_area_and_advice() -> None:
    assert plain(FINDINGS).splitlines() == [
        "ok    target      [bold]found[/bold]",
        "warn  pair        doubtful",
        "                  -> think about it",
        "fail  template    broken",
        "                  -> mend it",
        "",
        "1 ok, 1 warn, 1 fail",
    ]


def test_a_terminal_gets_the_same_words_in_colours() -> None:
    out = io.StringIO()
    coloured(FINDINGS, Console(file=out, force_terminal=True, width=60, color_system="standard"))
    assert "\x1b[32mok" in out.getvalue()
    assert "[bold]found[/bold]" in out.getvalue()
    assert "-> mend it" in out.getvalue()
    assert "1 ok, 1 warn, 1 fail" in out.getvalue()


def test_json_holds_everything() -> None:
    body = json.loads(as_json(FINDINGS, {"exactness": None}))
    assert body["level"] == "fail"
    assert body["findings"][1] == {"area": "pair", "level": "warn", "said": "doubtful", "advice": "think about it"}
    assert body["exactness"] is None


def test_the_gravest_finding_counts() -> None:
    assert [worst(FINDINGS[:count]) for count in range(4)] == ["ok", "ok", "warn", "fail"]


def test_what_foreign_code_raises_becomes_a_reason() -> None:
    assert str(known(lambda: {}["lost"])) == "Unread(why=\"KeyError: 'lost'\")"


def test_warnings_end_with_0_and_failures_with_1(sound: Path, copied: Copied) -> None:
    good = CliRunner().invoke(main, ["doctor", str(sound), "none"])
    assert good.exit_code == 0, good.output
    assert ", 0 fail" in good.output
    folder = copied()
    changed(folder / "config.json", hidden_size="wide")
    bad = CliRunner().invoke(main, ["doctor", str(folder), "--json"])
    assert bad.exit_code == 1
    body = json.loads(bad.stdout)
    assert body["level"] == "fail"
    assert any("hidden_size is 'wide'" in finding["said"] for finding in body["findings"])


def test_it_examines_what_would_be_served(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGUNA_MODEL", str(sound))
    monkeypatch.setenv("LAGUNA_SPECULATOR", "none")
    monkeypatch.setenv("LAGUNA_HOST", "0.0.0.0")
    said = CliRunner().invoke(main, ["doctor"]).output
    assert str(sound) in said
    assert "turned off" in said
    assert "listening on 0.0.0.0 lets other machines in, and no API key is set" in said


def test_a_wrong_option_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(main, ["doctor", "--tokens", "0"]).exit_code == 2
    monkeypatch.setenv("LAGUNA_PORT", "many")
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, "LAGUNA_PORT" in result.output) == (2, True)


def test_exactness_is_measured_and_told() -> None:
    done = CliRunner().invoke(main, ["doctor", "--exactness", "--tokens", "2", "--json"])
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)["exactness"]
    assert (measured["dtype"], measured["prompts"]) == ("float32", [24, 63, 144])
    assert [row["rows"] for row in measured["widths"]] == [1, 3, 4, 5, 9, 16]
    assert {row["positions"] for row in measured["widths"]} == {6}
    assert [row["flips"] for row in measured["widths"]] == [[]] * 6


def test_exactness_of_a_pair_that_does_not_load_is_a_failure(copied: Copied) -> None:
    folder = copied()
    (folder / "tokenizer.json").unlink()
    done = CliRunner().invoke(main, ["doctor", str(folder), "--exactness"])
    assert done.exit_code == 1
    assert "exactness   could not be measured" in done.output


def test_where_mlx_cannot_be_imported_that_is_the_finding(tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("raise ImportError('no library for this machine')")
    (tmp_path / "mlx" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "server", "doctor"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: what the server is built on cannot be imported: no library for this machine")


def test_the_command_ends_cleanly_and_a_broken_checkpoint_brings_no_traceback(copied: Copied) -> None:
    folder = copied()
    for path in folder.rglob("*.*"):
        path.write_bytes(b"\xff")
    done = subprocess.run(
        [sys.executable, "-m", "server", "doctor", str(folder)], capture_output=True, check=False, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "config.json" in done.stdout
