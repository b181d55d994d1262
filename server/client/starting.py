"""The server that runs, or one that is started for as long as it is needed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from server.address import base_url
from server.client.reach import Door, Loading, Served, Unreachable
from server.settings import Folders, Settings

ENDING = 5.0
"""Seconds that a server whose engine died takes to end, at most."""
LOOKS = 0.1
"""Seconds between two looks at a server on its way."""
GRACE = 10.0
"""Seconds in which a server that we started has to end."""
TAIL = 15
"""Lines of its log that are shown when it fails."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """Which server is to be asked.

    Attributes:
        settings: where it listens, or would, and with what it would be started.
        url: of one that must run already; None: the one of the settings, started where nobody is there.
        key: what opens it.
        model: it must answer to this name; None: to any.
        flags: of `laguna serve`, for the one that is started.
    """

    settings: Settings
    url: str | None = None
    key: str | None = None
    model: str | None = None
    flags: Sequence[str] = ()


@contextmanager
def attached(wanted: Wanted, say: Say) -> Generator[Served]:
    """A server that is ready; one that was started for this ends with it.

    Args:
        wanted: which.
        say: told in a line what is waited for.

    Raises:
        Unreachable: there is none, it is another, or it could not be started.
    """
    port = wanted.settings.port or _free_port(wanted.settings.host)
    door = Door(wanted.url or base_url(wanted.settings.host, port), wanted.key)
    try:
        if door.look() is not None:
            yield _checked(door, _ready(door, say), wanted.model)
            return
        if wanted.url is not None:
            raise Unreachable(f"nobody answers at {wanted.url}: start it with `laguna serve`")
        with _started(wanted, port) as server:
            say(f"no server runs at {door.url}: starting one")
            yield _ready(door, say, server)
    finally:
        door.close()


def _checked(door: Door, served: Served, model: str | None) -> Served:
    if model is not None and not door.knows(model):
        raise Unreachable(
            f"the server at {door.url} serves {served.model}, not {model}: stop it, or give --port for another one"
        )
    return served


@dataclass(frozen=True)
class _Child:
    process: "subprocess.Popen[bytes]"
    log: Path


def _ready(door: Door, say: Say, child: _Child | None = None) -> Served:
    """Wait until it can be asked."""
    told = ""
    while True:
        found = _looked(door, child)
        if isinstance(found, Served):
            return found
        if isinstance(found, Loading) and found.told not in ("", told):
            say(told := found.told)
        if found is None and child is None:
            raise Unreachable(f"the server at {door.url} ended while its model was loading")
        if child is not None and child.process.poll() is not None:
            raise Unreachable(f"the server could not be started:\n{_tail(child.log)}")
        time.sleep(LOOKS)


def _looked(door: Door, child: _Child | None) -> Served | Loading | None:
    """Who is there; a server of our own that is broken ends by itself, and its log tells more than it does."""
    try:
        return door.look()
    except Unreachable:
        if child is None or not _ends(child.process):
            raise
        return None


def _ends(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _started(wanted: Wanted, port: int) -> Generator[_Child]:
    log = Folders().xdg_state_home.expanduser() / "laguna" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P and our own place in PYTHONPATH: this very package, whatever lies in the working directory.
    place = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([place, *_paths()])}
    own = wanted.settings.api_key or wanted.settings.api_key_file
    if wanted.key is not None and not own:
        environment |= {"LAGUNA_API_KEY": wanted.key}
    command = [sys.executable, "-P", "-m", "server", "serve", *wanted.flags, "--port", str(port)]
    with log.open("wb") as out, _ended_by_signals():
        # A session of its own: Ctrl-C is meant for the answer, not for the server.
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            yield _Child(process, log)
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """A signal that would end this process at once must end the other one too."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _paths() -> list[str]:
    return [path for path in (os.environ.get("PYTHONPATH"),) if path]


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as sock:
        return sock.getsockname()[1]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-TAIL:])
