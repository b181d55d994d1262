"""A conversation over HTTP is resumed, not read again, and says the same as if it were read again."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from models.decode.prefix import PrefixStore
from models.runtime import load_runtime
from server.keeping import kept
from server.marks import APART, NEWEST, parting, turn_starts, worth_keeping
from server.settings import Settings
from tests.server.script import ScriptPair, says
from tests.server.stand import running, wait_until

SYSTEM = {"role": "system", "content": "You are a careful assistant. " * 12}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    for name in ("get_weather", "get_time")
]
QUESTIONS = ["What is the weather in Oslo?", "What is the weather in Lima?", "Say hello to Bob."]


def client(**settings: object) -> Iterator[httpx2.Client]:
    with (
        running(partial(load_runtime, None, "auto"), Settings.model_validate(settings)) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        wait_until(lambda: engine.health.state != "loading")
        yield http


@pytest.fixture(scope="module")
def keeping() -> Iterator[httpx2.Client]:
    yield from client()


@pytest.fixture(scope="module")
def forgetful() -> Iterator[httpx2.Client]:
    yield from client(prefix_cache_gib=0)


def answer(http: httpx2.Client, messages: Sequence[dict[str, Any]], **more: object) -> dict[str, Any]:
    asked = {"model": "laguna-tiny", "messages": messages, "tools": TOOLS, "max_tokens": 90, "seed": 3} | more
    response = http.post("/v1/chat/completions", json=asked)
    assert response.status_code == 200, response.text
    return response.json()


def cached(body: dict[str, Any]) -> int:
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == body["laguna"]["cached_tokens"]
    return body["laguna"]["cached_tokens"]


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("thinking", [False, True])
def test_every_turn_resumes_where_the_last_one_ended(
    keeping: httpx2.Client, forgetful: httpx2.Client, temperature: float, thinking: bool
) -> None:
    messages: list[dict[str, Any]] = [SYSTEM]
    kwargs = {"temperature": temperature, "chat_template_kwargs": {"enable_thinking": thinking}}
    known = 0
    for turn, question in enumerate(QUESTIONS):
        messages.append({"role": "user", "content": f"{question} ({temperature}, {thinking})"})
        warm, cold = answer(keeping, messages, **kwargs), answer(forgetful, messages, **kwargs)
        assert warm["choices"][0]["message"] | {"tool_calls": None} == cold["choices"][0]["message"] | {
            "tool_calls": None
        }
        assert cached(cold) == 0
        assert cold["laguna"]["cache_parted"] is None
        assert cached(warm) == known or turn == 0
        messages.append(warm["choices"][0]["message"])
        for call in messages[-1].get("tool_calls", []):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": '{"temperature": 7}'})
        # What is cut inside a call comes back without it.
        assert warm["choices"][0]["finish_reason"] != "length"
        known = warm["usage"]["total_tokens"]


@pytest.mark.parametrize("words", [0, 40])
def test_another_conversation_shares_the_system_prompt_and_an_edit_keeps_what_came_before(
    keeping: httpx2.Client, words: int
) -> None:
    long = " ".join(f"Word {n}." for n in range(words))
    system = SYSTEM | {"content": f"{words} words. {SYSTEM['content']}"}
    first = answer(keeping, [system, {"role": "user", "content": f"First: {long}"}])
    second = answer(keeping, [system, {"role": "user", "content": f"Second: {long}"}])
    assert 60 < cached(second) < first["usage"]["prompt_tokens"]
    assert "in the user turn" in second["laguna"]["cache_parted"]
    assert "Second" in second["laguna"]["cache_parted"]
    assert "First" not in second["laguna"]["cache_parted"]
    again = answer(keeping, [system, {"role": "user", "content": f"Second: {long}"}])
    assert cached(again) > 0.9 * again["usage"]["prompt_tokens"]


def test_switching_thinking_reads_only_the_generation_prompt_again(keeping: httpx2.Client) -> None:
    messages = [SYSTEM, {"role": "user", "content": "Is the switch on or off?"}]
    answer(keeping, messages, chat_template_kwargs={"enable_thinking": False})
    body = answer(keeping, messages, chat_template_kwargs={"enable_thinking": True})
    assert cached(body) == body["usage"]["prompt_tokens"] - 2


def test_marks_lie_before_turns_and_the_newest_are_chosen() -> None:
    text = "<system>s</system>\n<user>u</user>\n<assistant>a</assistant>\n<tool_response>t</tool_response>\n<assistant>"
    assert [text[at:].partition(">")[0] for at in turn_starts(text)] == [
        "<system",
        "<user",
        "<assistant",
        "<tool_response",
        "<assistant",
    ]
    assert worth_keeping([]) == ()
    assert worth_keeping([1, 5]) == (5,)
    assert worth_keeping([1, 200, 210, 300, 305]) == (200, 305)
    # A short question leaves no room between the two, and the next conversation will ask another.
    assert worth_keeping([1, 200, 210]) == (200, 210)
    assert worth_keeping([1, 20, 200, 300, 310]) == (200, 310)
    starts = [1, *range(100, 100 + 40 * APART, 2 * APART)]
    chosen = worth_keeping(starts)
    assert chosen[0] == 100
    assert chosen[1:] == tuple(starts[-NEWEST:])


def test_where_a_prompt_parted_is_told_in_its_own_words() -> None:
    told = parting("<system>You", " are " + "x" * 90, 3, 90)
    assert told == "token 3 of 90, in the system turn, differs from what was kept: ' are " + "x" * 35 + "…'"
    assert parting("", "hi", 0, 1) == "token 0 of 1, in the beginning turn, differs from what was kept: 'hi'"
    assert "in the tool turn" in parting("<user>a</user><tool_response>", "b", 9, 10)


def test_a_restart_finds_the_conversation_on_disk(tmp_path: Path) -> None:
    messages = [SYSTEM, {"role": "user", "content": "What is the weather in Rome?"}]
    for known in (False, True):
        for http in client(cache_dir=str(tmp_path)):
            body = answer(http, messages)
            assert (cached(body) > 0.9 * body["usage"]["prompt_tokens"]) == known
            told = body["choices"][0]["message"]["tool_calls"][0]["function"]
            assert json.loads(told["arguments"]) == {"city": "Rome"}
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_had_leaves_a_cache_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = kept(ScriptPair(says("x")), Settings(cache_dir=str(tmp_path / "file"))).prefix
    assert type(store) is PrefixStore
    assert "--cache-dir cannot be used" in caplog.text
    assert store.budget == ScriptPair(says("x")).left // 4
    assert kept(ScriptPair(says("x")), Settings(prefix_cache_gib=0)).prefix is None
