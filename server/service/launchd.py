"""Installing, removing and asking after the job: each a list of steps that can be shown instead of taken."""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from server.service.job import LABEL, Job


@dataclass(frozen=True)
class Write:
    """A file to be written, with its folders."""

    path: Path
    content: bytes


@dataclass(frozen=True)
class Folder:
    """A folder that must be there."""

    path: Path


@dataclass(frozen=True)
class Remove:
    """A file that must not be there."""

    path: Path


@dataclass(frozen=True)
class Run:
    """A command. With `may_fail` its failure changes nothing, as that of stopping what does not run."""

    command: tuple[str, ...]
    may_fail: bool = False


Step = Write | Folder | Remove | Run
Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class ServiceError(ValueError):
    """launchd said no."""


def install(job: Job, user: int) -> list[Step]:
    """Replace what is there, and start it."""
    return [
        Folder(job.logs),
        Run(("launchctl", "bootout", _target(user)), may_fail=True),
        Write(job.file, job.plist()),
        Run(("launchctl", "bootstrap", f"gui/{user}", str(job.file))),
    ]


def uninstall(job: Job, user: int) -> list[Step]:
    """Stop it, and forget it; logs stay."""
    return [Run(("launchctl", "bootout", _target(user)), may_fail=True), Remove(job.file)]


def status(job: Job, user: int, run: Runner) -> list[str]:
    """What launchd knows of the job, a line each."""
    if not job.file.exists():
        return [f"not installed: {job.file} is not there"]
    asked = run(("launchctl", "print", _target(user)))
    if asked.returncode != 0:
        return [f"installed in {job.file}, but not loaded: laguna service install loads it"]
    facts = dict(re.findall(r"^\s*(state|pid|last exit code) = (.+)$", asked.stdout, re.MULTILINE))
    return [f"installed in {job.file}", *(f"{name}: {value}" for name, value in facts.items()), f"logs: {job.logs}"]


def shown(steps: Sequence[Step]) -> str:
    """The steps for people."""
    return "\n".join(map(_shown, steps))


def _shown(step: Step) -> str:
    match step:
        case Write(path, content):
            return f"write {path}:\n{content.decode()}".rstrip()
        case Folder(path):
            return f"make {path}"
        case Remove(path):
            return f"remove {path}"
        case Run(command):
            return f"run {' '.join(command)}"
        case _ as never:
            assert_never(never)


def take(steps: Sequence[Step], run: Runner) -> None:
    """Do it.

    Raises:
        ServiceError: a command failed.
        OSError: a file could not be written.
    """
    for step in steps:
        _take(step, run)


def _take(step: Step, run: Runner) -> None:
    match step:
        case Write(path, content):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        case Folder(path):
            path.mkdir(parents=True, exist_ok=True)
        case Remove(path):
            path.unlink(missing_ok=True)
        case Run(command, may_fail):
            done = run(command)
            if done.returncode != 0 and not may_fail:
                raise ServiceError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
        case _ as never:
            assert_never(never)


def _target(user: int) -> str:
    return f"gui/{user}/{LABEL}"


def launchctl(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run it for real."""
    return subprocess.run(command, capture_output=True, text=True, check=False)
