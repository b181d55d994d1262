"""Agents are told where the server is, in variables and arguments of their own, and nothing else is changed."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path

import anthropic
import openai
import pytest
from click.testing import CliRunner

from server.cli import main
from server.commands.launch import NAMES
from server.launch.agents import AGENTS, RESPONSES, Endpoint
from server.launch.command import CannotLaunch, check_dialect, environment, told
from tests.server.process import free_port
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand

TO = Endpoint("http://127.0.0.1:8000", "secret", "poolside/Laguna-XS-2.1", 131072)
REPORT = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
sys.exit(7)
"""


def test_every_agent_can_be_launched() -> None:
    assert set(NAMES) == AGENTS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_each_is_told_the_address_the_key_and_the_model(name: str) -> None:
    setup = AGENTS[name].setup(TO)
    everything = " ".join([*setup.environment.values(), *setup.arguments])
    for said in ("http://127.0.0.1:8000", "secret", "poolside/Laguna-XS-2.1"):
        assert said in everything
    assert "None" not in " ".join(AGENTS[name].setup(Endpoint(TO.url, "k", "m", None)).arguments)


def test_opencode_gets_a_provider_in_a_configuration_of_its_own() -> None:
    config = json.loads(AGENTS["opencode"].setup(TO).environment["OPENCODE_CONFIG_CONTENT"])
    provider = config["provider"]["laguna"]
    assert config["model"] == "laguna/poolside/Laguna-XS-2.1"
    assert provider["options"] == {"baseURL": "http://127.0.0.1:8000/v1", "apiKey": "secret"}
    assert provider["models"]["poolside/Laguna-XS-2.1"]["limit"] == {"context": 131072, "output": 32000}


def test_codex_gets_toml_on_its_command_line() -> None:
    setup = AGENTS["codex"].setup(TO)
    config = tomllib.loads("\n".join(setup.arguments[1::2]))
    provider = config["model_providers"]["laguna"]
    assert set(setup.arguments[::2]) == {"-c"}
    assert (config["model_provider"], config["model_context_window"]) == ("laguna", 131072)
    assert (provider["base_url"], provider["wire_api"]) == ("http://127.0.0.1:8000/v1", "responses")
    assert setup.environment[provider["env_key"]] == "secret"


def test_claude_is_not_left_a_key_that_would_come_first() -> None:
    setup = AGENTS["claude"].setup(TO)
    inherited = {"ANTHROPIC_API_KEY": "theirs", "PATH": "/bin"}
    assert "ANTHROPIC_API_KEY" not in environment(inherited, setup)
    assert environment(inherited, setup)["PATH"] == "/bin"
    assert inherited["ANTHROPIC_API_KEY"] == "theirs"


@pytest.fixture
def server() -> Generator[Stand]:
    with stand(ScriptPair(says("hello"))) as server:
        yield server


@pytest.mark.parametrize(("name", "key"), [("qwen", "OPENAI_BASE_URL"), ("claude", "ANTHROPIC_BASE_URL")])
def test_what_is_set_is_what_the_sdks_need(server: Stand, name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = AGENTS[name].setup(Endpoint(f"http://127.0.0.1:{server.port}", "unused", "Laguna-Script", 1000))
    for variable in setup.unset:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in setup.environment.items():
        monkeypatch.setenv(variable, value)
    assert os.environ[key]
    if name == "qwen":
        with openai.OpenAI() as client:
            answer = client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=[{"role": "user", "content": "hi"}]
            )
        assert answer.choices[0].message.content == "hello"
    else:
        with anthropic.Anthropic() as client:
            message = client.messages.create(
                model=os.environ["ANTHROPIC_MODEL"], max_tokens=50, messages=[{"role": "user", "content": "hi"}]
            )
        assert message.content[0].to_dict()["text"] == "hello"


def test_a_dialect_that_the_server_has_not_is_refused_by_name() -> None:
    with pytest.raises(CannotLaunch, match=f"codex speaks {RESPONSES}"):
        check_dialect(AGENTS["codex"], "http://127.0.0.1:8000", lambda _: False)
    check_dialect(AGENTS["codex"], "http://127.0.0.1:8000", lambda path: path == RESPONSES)


def test_print_says_what_a_shell_would_set_and_starts_nothing(server: Stand) -> None:
    arguments = ["launch", "aider", "--print", "--port", str(server.port), "--", "--message", "two words"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert f"export OPENAI_API_BASE=http://127.0.0.1:{server.port}/v1" in lines
    assert shlex.split(lines[-1]) == [
        "aider", "--model", "openai/poolside/Laguna-Script", "--no-show-model-warnings", "--message", "two words"
    ]  # fmt: skip


def test_print_works_before_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGUNA_MODEL", "me/Mine")
    result = CliRunner().invoke(main, ["launch", "pool", "--print", "--port", str(free_port())])
    assert result.exit_code == 0
    assert "no model is ready" in result.output
    assert result.output.splitlines()[-1] == "pool -m me/Mine"


def launched(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`laguna launch` where the only agents are those in `home`."""
    environment = os.environ | {"PATH": str(home), "ANTHROPIC_API_KEY": "theirs"}
    command = [sys.executable, "-m", "server", "launch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_the_agent_is_started_as_was_said_and_its_status_is_ours(server: Stand, tmp_path: Path) -> None:
    agent = tmp_path / "claude"
    agent.write_text(REPORT.format(python=sys.executable))
    agent.chmod(0o755)
    done = launched(tmp_path, "claude", "--port", str(server.port), "--", "-p", "say hello")
    assert done.returncode == 7, done.stderr
    arguments, seen = json.loads(done.stdout)
    assert arguments == ["-p", "say hello"]
    assert seen["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{server.port}"
    assert "ANTHROPIC_API_KEY" not in seen
    assert "export ANTHROPIC_BASE_URL=" in done.stderr


def test_an_agent_that_is_not_installed_is_said_before_a_server_is_started(tmp_path: Path) -> None:
    done = launched(tmp_path, "qwen", "--port", str(free_port()))
    assert done.returncode == 1
    assert "npm install -g @qwen-code/qwen-code" in done.stderr
    assert "starting one" not in done.stderr


def test_keys_are_not_told() -> None:
    agent = AGENTS["pool"]
    assert "secret" not in told(agent, agent.setup(TO), hidden="secret")
    assert "unused" in told(agent, agent.setup(Endpoint(TO.url, "unused", "m", None)), hidden=None)
