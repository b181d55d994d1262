"""`laguna chat` as a process: on a terminal of its own, and in a pipe, with the embedded pair behind it."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from models.runtime import load_runtime
from server.chat.answer import Answer, Said
from server.chat.conversation import Conversation
from server.chat.line import HttpLine
from server.chat.screen import TINTS
from server.chat.talk import Wishes
from server.client.reach import Served
from server.settings import Settings
from tests.commands.terminal import Terminal, terminal
from tests.server.script import ScriptPair, forever
from tests.server.stand import running, stand, wait_until

WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    with running(load_runtime, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        yield port


def chat(home: Path, port: int, *arguments: str) -> AbstractContextManager[Terminal]:
    return terminal("chat", "--port", str(port), *arguments, environment={"XDG_STATE_HOME": str(home)})


def test_a_chat_with_a_tool_history_and_commands(tmp_path: Path, port: int) -> None:
    tools, saved = tmp_path / "tools.json", tmp_path / "chat.json"
    tools.write_text(json.dumps([WEATHER]))
    with chat(tmp_path, port, "--tools", str(tools), "--temperature", "0", "--no-think") as shown:
        shown.wait_for("laguna-tiny at http")
        shown.send("What is the weather in Oslo?\r")
        shown.wait_for('→ get_weather {"city": "Oslo"}')
        shown.wait_for("result of get_weather>")
        shown.send('{"temperature": 7, "sky": "cloudy"}\r')
        shown.wait_for(" a second", 2)
        shown.send(f"/save {saved}\r")
        shown.wait_for("4 messages in")
        shown.send("/quit\r")
        assert shown.wait_for_end() == 0
    messages = json.loads(saved.read_text())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert "cloudy" in messages[-1]["content"]
    history = tmp_path / "laguna" / "history"
    assert "What is the weather in Oslo?" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_several_lines_are_one_message_and_ctrl_d_leaves(tmp_path: Path, port: int) -> None:
    saved = tmp_path / "chat.json"
    with chat(tmp_path, port, "--max-tokens", "4", "--no-think") as shown:
        shown.wait_for("\n>")
        shown.send("one\\\rtwo\x1b\rthree\r")
        shown.wait_for(" a second")
        shown.send(f"/save {saved}\r")
        shown.wait_for("messages in")
        shown.send("\x04")
        assert shown.wait_for_end() == 0
    assert json.loads(saved.read_text())["messages"][0]["content"] == "one\ntwo\nthree"


def test_ctrl_c_stops_the_answer_and_not_the_chat(tmp_path: Path) -> None:
    script = ScriptPair(forever, pace=0.02, context_length=10**6)
    with stand(script) as server, chat(tmp_path, server.port) as shown:
        shown.wait_for("\n>")
        shown.send("go\r")
        shown.wait_for("ab ab")
        shown.child.sendintr()
        shown.wait_for("stopped")
        server.wait_until(lambda: server.engine.health.running == 0)
        shown.send("/model\r")
        shown.wait_for("context 1000000 tokens")
        shown.send("\x04")
        assert shown.wait_for_end() == 0


def test_every_token_of_an_answer_tells_who_wrote_it(port: int) -> None:
    served = Served(f"http://127.0.0.1:{port}", None, "laguna-tiny", 4096, {})
    asked = Conversation().asked("What is the weather in Oslo?")
    body = Wishes(served.model, think=False, tokens=True, temperature=0).body(asked) | {"speculation": "always"}
    answer, tokens = Answer(), []
    with closing(HttpLine(served)) as line, line.answer(body) as told:
        for event in told:
            answer.add(event)
            tokens += event.tokens if isinstance(event, Said) else []
    assert "".join(text for text, _ in tokens) == answer.content != ""
    assert "speculator" in {writer for _, writer in tokens} <= TINTS.keys()


def piped(port: int, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "server", "chat", "--port", str(port), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_in_a_pipe_the_answer_alone_is_written(port: int) -> None:
    asked = piped(port, "--max-tokens", "8", "--temperature", "0", "--no-think", "Say hello.")
    read = piped(port, "--max-tokens", "8", "--temperature", "0", "--no-think", text="Say hello.")
    assert (asked.returncode, read.returncode) == (0, 0), asked.stderr
    assert asked.stdout == read.stdout
    assert asked.stdout.strip()
    assert "tokens" in asked.stderr
    assert "\x1b" not in asked.stdout + asked.stderr


def test_a_refused_question_is_the_exit_status(port: int) -> None:
    refused = piped(port, "--system", "x " * 10000, "hello")
    assert refused.returncode == 1
    assert "maximum context length" in refused.stderr
