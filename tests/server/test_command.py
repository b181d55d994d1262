"""The command line: what it costs, what it says, and how the process ends."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
import uvicorn
from click.testing import CliRunner

from server.address import CannotListen, try_address
from server.app import create_app
from server.backend import Pair
from server.cli import main
from server.draining import DrainingServer
from server.engine import Engine
from server.serving import run
from server.settings import Settings
from server.welcome import Welcome
from tests.server.process import answers, free_port
from tests.server.stand import PATIENCE, asked, wait_until
from tests.server.wire import events, refused

HEAVY = ("mlx", "mlx_lm", "fastapi", "transformers", "models", "rich", "prompt_toolkit", "httpx2")


def loaded_by(*arguments: str) -> set[str]:
    """The heavy packages that a fresh interpreter has imported after `laguna ARGUMENTS`."""
    code = (
        "import sys\nfrom server.cli import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} + ('pydantic_settings',) if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1].replace("'", '"')))


def test_help_imports_nothing_heavy() -> None:
    assert loaded_by("--help") == set()
    assert loaded_by("serve", "--help") == {"pydantic_settings"}
    for command in ("doctor", "bench", "chat", "launch", "pull", "service"):
        assert loaded_by(command, "--help") == set()


def test_help_fits_a_narrow_terminal_and_no_summary_is_cut() -> None:
    for arguments in ((), ("service",), *((name,) for name in main.commands)):
        shown = CliRunner().invoke(main, [*arguments, "--help"], terminal_width=80).output
        summaries = shown.partition("Commands:\n")[2].splitlines()
        assert [line for line in summaries if line.endswith("...")] == []
        assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_the_module_goes_by_the_name_of_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "server", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("laguna, version ")


def test_every_setting_is_a_flag_with_its_default() -> None:
    shown = CliRunner().invoke(main, ["serve", "--help"], terminal_width=200).output
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert field.default in (None, (), False) or f"[default: {field.default}]" in shown


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGUNA_PORT", "1234")
    monkeypatch.setenv("LAGUNA_QUEUE", "5")
    settings = Settings.model_validate({"port": "4321"})
    assert (settings.port, settings.queue, settings.host) == (4321, 5, "127.0.0.1")


@pytest.mark.parametrize("flag", ["--memory-limit", "--prefix-cache-gib", "--cache-dir-gib", "--shutdown-grace"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
def test_what_is_no_size_or_time_of_this_world_is_a_usage_error(flag: str, value: str) -> None:
    result = CliRunner().invoke(main, ["serve", flag, value])
    assert result.exit_code == 2
    assert f"{flag}: Input should be" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "many"], "port"),
        (["--port", "70000"], "port"),
        (["--speculation", "maybe"], "speculation"),
        (["--unheard-of", "1"], "--unheard-of"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_a_signal_ends_open_requests_with_a_word_and_the_process_in_time() -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.server.scripted", str(port)])
    try:
        with (
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http,
            ThreadPoolExecutor(1) as pool,
        ):
            wait_until(lambda: answers(http))
            plain = pool.submit(http.post, "/v1/chat/completions", json=asked())
            wait_until(lambda: http.get("/health").json()["running"] == 1)
            seen = ""
            with http.stream("POST", "/v1/chat/completions", json=asked(stream=True)) as response:
                for text in response.iter_text():
                    if not seen:
                        process.send_signal(signal.SIGTERM)
                    seen += text
            assert json.loads(events(seen)[-1])["error"]["code"] == "server_stopping"
            assert (plain.result().status_code, refused(plain.result())["code"]) == (503, "server_stopping")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_is_no_fault_and_a_taken_port_is_found_before_the_model_is_loaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.server.scripted", str(port)], stderr=subprocess.PIPE)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
            wait_until(lambda: answers(http))
            assert run(Settings(port=port), lambda: pytest.fail("the model was loaded")) == 1
            assert f"cannot listen on 127.0.0.1, port {port}: Address already in use. Another port" in caplog.text
            assert f"`laguna chat --url http://127.0.0.1:{port}` talks to an earlier server" in caplog.text
            assert answers(http)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0
        assert b"Traceback" not in said
        lines = said.decode().splitlines()
        assert sum(line.endswith(f"listening on http://127.0.0.1:{port}") for line in lines) == 1
        assert lines[-1].endswith("stopping; requests that run have 0.3 s to end")
        assert b"uvicorn" not in said
    finally:
        process.kill()
        process.wait()


def test_an_address_that_nobody_has_is_refused_in_the_systems_own_words() -> None:
    with pytest.raises(CannotListen, match=r"^[^()\[\]]+$"):
        try_address("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "some/Laguna"], "(some/Laguna): a model is named with --model"),
        (["launch", "emacs"], "Invalid value for 'AGENT'"),
        (["chat", "--url", "127.0.0.1:9", "hello"], "'127.0.0.1:9' has no http:// or https:// before it"),
        (["service", "install", "--dry-run", "--api-key", "secret"], "--api-key-file FILE"),
    ],
)
def test_a_usage_error_says_what_to_write_instead(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_model_that_cannot_be_found_ends_the_process_with_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server", "serve", "--model", "/no/such/folder", "--port", str(free_port())],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 1, done.stderr
    (told,) = [line for line in done.stderr.splitlines() if "listening on" not in line]
    assert "/no/such/folder" in told


async def test_a_port_is_not_told_where_the_engine_died_before(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Pair:
        raise ValueError("no weights")

    caplog.set_level(logging.INFO)
    died = asyncio.Event()
    engine = Engine(load, Settings(), on_death=died.set)
    await engine.start()
    await asyncio.wait_for(died.wait(), PATIENCE)
    config = uvicorn.Config(create_app(engine, Settings()), port=0, lifespan="off", log_config=None)
    config.load()
    server = DrainingServer(config, engine, 0, Welcome(Settings()))
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    assert server.servers
    await server.shutdown()
    await engine.stop()
    assert [record.levelname for record in caplog.records if record.name.startswith("server.")] == ["ERROR"]
