"""The launchd job, described and shown; launchd itself is only on macOS."""

import plistlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from server.cli import main
from server.service.job import Job
from server.service.launchd import Run, ServiceError, install, launchctl, status, take, uninstall

OLD = {"HF_HOME": "/models", "LAGUNA_API_KEY": "secret", "HF_TOKEN": "secret"}


class Launchd:
    """Answers as told, and remembers what it was asked."""

    def __init__(self, status: int = 0, said: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self._status, self._said = status, said

    def __call__(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        self.asked.append(tuple(command))
        return subprocess.CompletedProcess(command, self._status, self._said, "no" * (self._status != 0))


def test_the_plist_says_how_to_start_keep_and_end_the_server(tmp_path: Path) -> None:
    told = plistlib.loads(Job(tmp_path, ("--port", "9000"), OLD).plist())
    assert told["ProgramArguments"] == [sys.executable, "-P", "-m", "server", "serve", "--port", "9000"]
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert told["RunAtLoad"] is True
    assert told["ExitTimeOut"] >= 30
    assert told["EnvironmentVariables"] == {"HF_HOME": "/models"}
    assert {told["StandardOutPath"], told["StandardErrorPath"]} == {
        str(tmp_path / f"Library/Logs/laguna-server/{name}.log") for name in ("stdout", "stderr")
    }
    assert "EnvironmentVariables" not in plistlib.loads(Job(tmp_path).plist())


def test_installing_writes_the_file_and_loads_it_and_uninstalling_takes_both_back(tmp_path: Path) -> None:
    job, launchd = Job(tmp_path), Launchd()
    take(install(job, 501), launchd)
    assert job.file.read_bytes() == job.plist()
    assert job.logs.is_dir()
    assert launchd.asked == [
        ("launchctl", "bootout", "gui/501/laguna-server"),
        ("launchctl", "bootstrap", "gui/501", str(job.file)),
    ]
    take(uninstall(job, 501), Launchd(status=3))
    assert not job.file.exists()
    assert job.logs.is_dir()


def test_a_job_that_cannot_be_loaded_is_an_error_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"launchctl bootstrap gui/501 .*: exit status 5: no"):
        take(install(Job(tmp_path), 501), Launchd(status=5))


def test_status_tells_the_state_the_process_and_where_the_logs_are(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert "not installed" in status(job, 501, Launchd())[0]
    take(install(job, 501), Launchd())
    assert "not loaded" in status(job, 501, Launchd(status=113))[0]
    said = "gui/501/laguna-server = {\n\tstate = running\n\tpid = 77\n\tlast exit code = (never exited)\n}"
    lines = status(job, 501, Launchd(said=said))
    assert lines[1:] == ["state: running", "pid: 77", "last exit code: (never exited)", f"logs: {job.logs}"]


def test_a_dry_run_prints_the_plist_and_the_commands_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["service", "install", "--dry-run", "--model", "some/Laguna", "--port", "9000"])
    assert result.exit_code == 0, result.output
    xml = result.output.partition("<?xml")[2].partition("</plist>")[0]
    told = plistlib.loads(f"<?xml{xml}</plist>".encode())
    assert told["ProgramArguments"][-4:] == ["--model", "some/Laguna", "--port", "9000"]
    assert "run launchctl bootstrap gui/" in result.output
    assert list(tmp_path.iterdir()) == []
    result = CliRunner().invoke(main, ["service", "uninstall", "--dry-run"])
    assert "remove " in result.output


def test_what_serve_would_refuse_is_refused_before_it_is_installed() -> None:
    result = CliRunner().invoke(main, ["service", "install", "--dry-run", "--port", "many"])
    assert result.exit_code == 2
    assert "--port" in result.output
    result = CliRunner().invoke(main, ["service", "install", "--dry-run", "--prot", "1"])
    assert result.exit_code == 2
    assert "--prot" in result.output


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_elsewhere_than_on_macos_nothing_is_done(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    result = CliRunner().invoke(main, ["service", command])
    assert result.exit_code == 1
    assert "launchd is part of macOS" in result.output


def test_commands_are_run_and_their_failure_is_theirs_to_tell() -> None:
    assert launchctl(("true",)).returncode == 0
    take([Run(("false",), may_fail=True)], launchctl)
