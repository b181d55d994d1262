"""What a server says when it can be asked, and what it did before."""

import io
import logging
from dataclasses import replace

import pytest

from models.progress import Progress
from models.runtime import load_runtime
from server.address import base_url
from server.served import Model, served
from server.settings import Settings
from server.warming import warm
from server.welcome import Welcome, facts
from tests.commands.terminal import terminal
from tests.server.script import ScriptPair, says


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def model() -> Model:
    return served(ScriptPair(says("hi")), Settings())


@pytest.mark.parametrize("first", ["model", "port"])
def test_the_panel_comes_once_when_both_the_model_and_the_port_are_there(model: Model, first: str) -> None:
    terminal = Terminal()
    welcome = Welcome(Settings(), terminal)
    steps = [lambda: welcome.ready(model), lambda: welcome.listening(8123)]
    for step in steps if first == "model" else reversed(steps):
        assert terminal.getvalue() == ""
        step()
    shown = terminal.getvalue()
    for said in ("http://127.0.0.1:8123/v1", model.id, f"{model.context_length} tokens", "curl", "laguna chat"):
        assert said in shown


def test_without_a_terminal_it_is_one_line_of_the_log(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    welcome = Welcome(Settings(), io.StringIO())
    welcome.listening(8123)
    welcome.ready(model)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "server.welcome"]
    assert "http://127.0.0.1:8123/v1" in line
    assert "\n" not in line


def test_it_says_why_nothing_is_drafted(model: Model) -> None:
    without = replace(model, speculation_off="there is no partner")
    assert facts(without, Settings(), 1)["speculator"] == "none: there is no partner"
    assert "(speculation: auto)" in facts(replace(model, speculation_off=None), Settings(), 1)["speculator"]


@pytest.mark.parametrize(
    ("host", "port", "flag"),
    [
        ("127.0.0.1", 8000, ""),
        ("0.0.0.0", 8000, ""),
        ("127.0.0.1", 8014, " --url http://127.0.0.1:8014"),
        ("::1", 8000, " --url http://[::1]:8000"),
    ],
)
def test_the_commands_it_names_reach_this_server(model: Model, host: str, port: int, flag: str) -> None:
    told = facts(model, Settings(host=host), port)
    assert told["talk to it"].startswith(f"laguna chat{flag}, or http")
    assert told["work with it"].startswith(f"laguna launch{flag} opencode|")


def test_the_usual_place_is_the_defaults_whatever_the_environment_says(model: Model) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAGUNA_PORT", "9000")
        assert "--url http://127.0.0.1:9000" in facts(model, Settings(), 9000)["talk to it"]


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"), ("::", "http://[::1]:1")],
)
def test_the_address_is_one_that_can_be_called(host: str, url: str) -> None:
    assert base_url(host, 1) == url


def test_on_a_terminal_a_start_ends_with_the_panel() -> None:
    with terminal("serve", "--port", "0", environment={}) as shown:
        shown.wait_for("curl http://127.0.0.1:")
        assert "laguna-tiny" in shown.text
        assert "4096 tokens" in shown.text
        shown.child.sendintr()
        assert shown.wait_for_end() == 0


def test_warming_up_runs_both_ways_tells_so_and_changes_no_answer() -> None:
    told: list[Progress] = []
    pair = load_runtime()
    warm(pair, 512, told.append)
    assert [(step.phase, step.done, step.total) for step in told] == [("warm-up", n, 2) for n in (0, 1, 2)]


def test_a_warm_up_that_fails_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    warm(ScriptPair(lambda _: [RuntimeError("no")]), 512, lambda _: None)
    assert "warming up failed" in caplog.text
