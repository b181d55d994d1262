"""The process is killed outright while it writes what it keeps: the next one serves, and says the same."""

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from models.decode.archive import read
from tests.faults.tally import Tally
from tests.server.process import answers, free_port
from tests.server.stand import wait_until

ROOT = Path(__file__).parents[2]
SYSTEM = "You are a careful assistant. " * 30
TOPICS = ("Oslo", "Lima", "Cairo")


@dataclass(frozen=True)
class Life:
    """One process over the embedded pair."""

    process: subprocess.Popen[bytes]
    http: httpx2.Client

    def ask(self, topic: str) -> tuple[str, int]:
        """What it answers, and how many tokens of the prompt it had kept."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Tell me about {topic}."}]
        body = {"messages": messages, "max_tokens": 12, "seed": 3, "temperature": 1}
        told: dict[str, Any] = self.http.post("/v1/chat/completions", json=body).json()
        message = told["choices"][0]["message"]
        cached = (told["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return f"{message.get('reasoning_content')}|{message['content']}", cached


@contextmanager
def life(folder: Path, *, pieces: int | None = None) -> Generator[Life]:
    """Started, and at the end killed, if it still lives; or killed by itself, after so many pieces were written."""
    port = free_port()
    plain = ("server", "serve", "--port", str(port), "--cache-dir", str(folder))
    words = plain if pieces is None else ("tests.faults.dying", str(port), str(folder), str(pieces))
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            wait_until(lambda: answers(http) or process.poll() is not None)
            yield Life(process, http)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said where nothing goes wrong."""
    with life(tmp_path_factory.mktemp("quiet")) as quiet:
        return {topic: quiet.ask(topic)[0] for topic in TOPICS}


def killed(folder: Path, pieces: int) -> None:
    """Ask until the process has died."""
    with life(folder, pieces=pieces) as first:
        with suppress(httpx2.TransportError):
            for number in range(200):
                first.ask(f"place {number}" if number >= len(TOPICS) else TOPICS[number])
        assert first.process.wait(30) == -signal.SIGKILL
    assert list(folder.glob("*/*.part"))


def resumed(folder: Path, alone: dict[str, str]) -> int:
    """A process after that says what is right and leaves whole files; tokens of its first prompt that were kept."""
    with life(folder) as second:
        told = {topic: second.ask(topic) for topic in alone}
        assert {topic: text for topic, (text, _) in told.items()} == alone
        second.process.send_signal(signal.SIGTERM)
        second.process.wait(20)
    assert list(folder.glob("*/*.part")) == []
    for path in folder.glob("*/*.kv"):
        read(path, path.parent.name)
    return told[TOPICS[0]][1]


AT_LENGTH = [pytest.param(pieces, 2, marks=pytest.mark.long) for pieces in (0, 1, 30, 61)]


@pytest.mark.parametrize(("pieces", "lives"), [(7, 1), *AT_LENGTH])
def test_a_kill_in_the_middle_of_a_write_leaves_nothing_wrong(
    tmp_path: Path, alone: dict[str, str], pieces: int, lives: int, tally: Tally
) -> None:
    killed(tmp_path, pieces)
    kept = [resumed(tmp_path, alone) for _ in range(lives)]
    assert lives == 1 or kept[-1] > 0
    tally.case("killed in the middle of a write", tried=1 + lives)
