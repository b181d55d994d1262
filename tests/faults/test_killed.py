"""The process is killed outright while it writes what it keeps: the next one serves, and says the same."""

import signal
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from models.decode.archive import read
from tests.faults.life import life
from tests.faults.tally import Tally

TOPICS = ("Oslo", "Lima", "Cairo")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said where nothing goes wrong."""
    with life(tmp_path_factory.mktemp("quiet")) as quiet:
        return {topic: quiet.ask(topic)[0] for topic in TOPICS}


def killed(folder: Path, pieces: int) -> None:
    """Ask until the process has died."""
    with life(folder, "tests.faults.dying", str(pieces)) as first:
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
