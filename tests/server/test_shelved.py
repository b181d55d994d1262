"""An answer's own ids outlive the process, beside the caches of its prompt; a file that is lost costs time alone."""

import errno
import json
import logging
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from models.decode.folder import Folder
from models.runtime import load_runtime
from server import shelved
from server.replay import Said, Splice, Spoken, meaning
from server.settings import Settings
from server.shelved import ShelvedReplay
from tests.server.stand import running, wait_until

LARGE = 1 << 30
TURNS = [Spoken(2, 4, "<assistant>hi</assistant>")]
PROMPT = [1, 2, 23, 24]


def said(*ids: int) -> Said:
    """An answer that the text in `TURNS` means too, however it was cut into tokens."""
    return Said((23,), ids, "<assistant>", False, meaning("hi", (), thinking=False))


def splice(*ids: int) -> list[Splice]:
    return [Splice(2, 4, (23, *ids, 24))]


@contextmanager
def life(path: Path, key: str = "m", budget: int = LARGE) -> Generator[ShelvedReplay]:
    """One process."""
    folder = Folder(path / "m", budget)
    yield ShelvedReplay(folder, key)
    folder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a process left that gave one answer."""
    with life(tmp_path) as first:
        first.remember([1, 2], said(7, 8))
        assert first.splices(PROMPT, TURNS, ()) == splice(7, 8)
    return tmp_path


def the_file(folder: Path) -> Path:
    (path,) = (folder / "m").iterdir()
    return path


def test_the_next_process_finds_the_ids_and_nobody_else_does(folder: Path) -> None:
    assert the_file(folder).stat().st_mode & 0o177 == 0
    with life(folder) as second:
        assert second.splices(PROMPT, TURNS, ()) == splice(7, 8)
        assert second.splices([1, 3, 23, 24], TURNS, ()) == []
        assert second.splices(PROMPT, [Spoken(2, 4, "<assistant>ho</assistant>")], ()) == []
        assert second.splices(PROMPT, [Spoken(2, 4, "<assistant><think>hi</assistant>")], ()) == []
    with life(folder, key="another") as other:
        assert other.splices(PROMPT, TURNS, ()) == []


def test_the_same_answer_twice_is_one_file_and_another_is_one_more(folder: Path) -> None:
    with life(folder) as second:
        second.remember([1, 2], said(7, 8))
        second.remember([1, 2], Said((23,), (9,), "<assistant>", False, meaning("ho", (), thinking=False)))
    assert len(list((folder / "m").iterdir())) == 2
    with life(folder) as third:
        assert third.splices(PROMPT, TURNS, ()) == splice(7, 8)
        assert third.splices(PROMPT, [Spoken(2, 4, "<assistant>ho</assistant>")], ()) == splice(9)


def test_what_memory_has_no_room_for_is_found_on_disk(tmp_path: Path) -> None:
    files = Folder(tmp_path / "m", LARGE)
    replay = ShelvedReplay(files, "m", most_ids=50)
    for number in range(9):
        replay.remember([number, 2], said(*[number] * 19))
    files.close()
    for number in range(9):
        assert replay.splices([number, 2, 23, 24], TURNS, ()) == splice(*[number] * 19)


@pytest.mark.parametrize("at", [0, 9, 20, -1])
def test_a_changed_file_is_dropped(folder: Path, at: int, caplog: pytest.LogCaptureFixture) -> None:
    data = bytearray(the_file(folder).read_bytes())
    data[at] ^= 1
    the_file(folder).write_bytes(data)
    with life(folder) as second, caplog.at_level(logging.WARNING):
        assert second.splices(PROMPT, TURNS, ()) == []
        second.remember([1, 2], said(7, 8))
    assert caplog.text.count("a kept answer is dropped") == 1
    with life(folder) as third:
        assert third.splices(PROMPT, TURNS, ()) == splice(7, 8)


@pytest.mark.parametrize("kept", [0, 12, 60, -1, -4])
def test_a_file_cut_short_is_dropped(folder: Path, kept: int) -> None:
    the_file(folder).write_bytes(the_file(folder).read_bytes()[:kept])
    with life(folder) as second:
        assert second.splices(PROMPT, TURNS, ()) == []
        assert list((folder / "m").iterdir()) == []


def test_a_whole_file_of_another_form_is_dropped(folder: Path) -> None:
    the_file(folder).write_bytes(b"".join(shelved.sealed({"tail": 1, "opens": "<assistant>"}, [b"1234"], "m")))
    with life(folder) as second:
        assert second.splices(PROMPT, TURNS, ()) == []
        assert list((folder / "m").iterdir()) == []


def test_a_file_that_cannot_be_read_now_is_left_for_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with life(folder) as second, monkeypatch.context() as patched:
        patched.setattr(shelved, "unsealed", fails)
        assert second.splices(PROMPT, TURNS, ()) == []
    with life(folder) as third:
        assert third.splices(PROMPT, TURNS, ()) == splice(7, 8)


def test_a_folder_that_is_taken_away_costs_what_was_in_it(folder: Path) -> None:
    with life(folder) as second:
        shutil.rmtree(folder / "m")
        assert second.splices(PROMPT, TURNS, ()) == []
        second.remember([1, 2], said(7, 8))
    with life(folder) as third:
        assert third.splices(PROMPT, TURNS, ()) == splice(7, 8)


def test_a_full_disk_costs_nothing_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> list[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shelved, "sealed", full)
    with life(tmp_path) as first, caplog.at_level(logging.WARNING):
        first.remember([1, 2], said(7, 8))
        assert first.splices(PROMPT, TURNS, ()) == splice(7, 8)
    assert "No space left on device" in caplog.text
    assert list((tmp_path / "m").iterdir()) == []


def test_those_used_longest_ago_go_where_the_budget_ends(tmp_path: Path) -> None:
    with life(tmp_path) as first:
        for number in range(6):
            first.remember([number, 2], said(7, 8))
    files = sorted((tmp_path / "m").iterdir())
    for path in files:
        os.utime(path, (1, 1))
    size = sum(path.stat().st_size for path in files)
    with life(tmp_path, budget=size * 2 // 3) as second:
        assert second.splices([4, 2, 23, 24], TURNS, ()) == splice(7, 8)
        second.remember([9, 2], said(7, 8))
    assert sum(path.stat().st_size for path in (tmp_path / "m").iterdir()) <= size * 2 // 3
    with life(tmp_path) as third:
        found = [bool(third.splices([number, 2, 23, 24], TURNS, ())) for number in range(10)]
    assert found[4]
    assert found[9]
    assert sum(found) == 4


TOOL = {
    "type": "function",
    "function": {
        "name": "plan",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "trip": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "maxLength": 8},
                        "days": {"type": "array", "items": {"enum": [1, 2, 3]}, "maxItems": 2},
                    },
                    "required": ["city", "days"],
                    "additionalProperties": False,
                }
            },
            "required": ["trip"],
            "additionalProperties": False,
        },
    },
}
SYSTEM = {"role": "system", "content": "You are a careful assistant. " * 12}
Turn = tuple[list[dict[str, Any]], int]
"""A conversation up to a tool's result, and the tokens of it up to the end of the call."""


@contextmanager
def server(folder: Path) -> Generator[httpx2.Client]:
    with (
        running(partial(load_runtime, None, "auto"), Settings(cache_dir=str(folder))) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        wait_until(lambda: engine.health.state != "loading")
        yield http


def answer(http: httpx2.Client, messages: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    fixed = {"model": "laguna-tiny", "tools": [TOOL], "chat_template_kwargs": {"enable_thinking": False}}
    response = http.post("/v1/chat/completions", json={**fixed, "messages": messages, **more})
    assert response.status_code == 200, response.text
    return response.json()


def called(http: httpx2.Client, seed: int, **more: object) -> Turn:
    """Calls that the model wrote hot, with their arguments spaced as no template would, and their results."""
    asked = [SYSTEM, {"role": "user", "content": f"Plan trip {seed}."}]
    forced = {"tool_choice": "required", "temperature": 1.5, "max_tokens": 160}
    body = answer(http, asked, seed=seed, **forced, **more)
    message = body["choices"][0]["message"]
    calls = message.get("tool_calls", [])
    for call in calls:
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=3)
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls[:1]]
    return [*asked, message, *results], body["usage"]["total_tokens"] if len(calls) == 1 else 0


def followed(folder: Path, turns: list[Turn]) -> list[tuple[int, int]]:
    """How many tokens of each were cached, and how many follow the end of the call, when a new process goes on."""
    with server(folder) as http:
        bodies = [(answer(http, messages, max_tokens=2), end) for messages, end in turns]
    return [(body["laguna"]["cached_tokens"], body["usage"]["prompt_tokens"] - end) for body, end in bodies]


def test_after_a_restart_a_call_is_resumed_to_its_end_however_its_json_is_spaced(tmp_path: Path) -> None:
    with server(tmp_path / "kept") as http:
        turns = [turn for turn in (called(http, seed) for seed in range(1, 9)) if turn[1]]
        only = called(http, 20, parallel_tool_calls=False)
    shutil.copytree(tmp_path / "kept", tmp_path / "without")
    answers = list((tmp_path / "without").glob("*/*.said"))
    assert len(answers) == 9
    for path in answers:
        path.unlink()
    after, *others = followed(tmp_path / "kept", [only, *turns])
    tail = after[1]
    assert others == [(end, tail) for _, end in turns]
    missed = [found < end for (found, _), (_, end) in zip(followed(tmp_path / "without", turns), turns, strict=True)]
    assert any(missed), "these ids are no encoding of their text"
