"""Settings come from flags, the environment, a file and the defaults, and a wrong one is named with its place."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from server.cli import main
from server.configuration import WrongSetting, default_file, read_settings, unknown_variables


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def written(text: str) -> Path:
    file = default_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written("port = 1\nqueue = 2\nconcurrency = 3\n")
    monkeypatch.setenv("LAGUNA_PORT", "10")
    monkeypatch.setenv("LAGUNA_QUEUE", "20")
    settings = read_settings({"port": "100", "queue": None})
    assert (settings.port, settings.queue, settings.concurrency, settings.host) == (100, 20, 3, "127.0.0.1")


def test_a_file_may_spell_names_as_flags_do(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('context-length = 4096\nspeculation = "off"\n')
    settings = read_settings({}, file)
    assert (settings.context_length, settings.speculation) == (4096, "off")


def test_the_default_file_lies_where_xdg_says_and_else_under_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_file() == tmp_path / "laguna" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_file() == Path("/home/somebody/.config/laguna/config.toml")


@pytest.mark.parametrize(
    ("flags", "environment", "file", "said"),
    [
        ({"port": "many"}, {"LAGUNA_PORT": "1"}, "", "--port: "),
        ({}, {"LAGUNA_CONTEXT_LENGTH": "1"}, "context_length = 9", "LAGUNA_CONTEXT_LENGTH: "),
        ({}, {}, "port = 'many'", "port in {file}: "),
        ({}, {}, "prot = 1", "prot in {file} is no setting; did you mean port?"),
        ({}, {}, "zzzzzz = 1", "laguna serve --help"),
        ({}, {}, "port = ", "{file} cannot be read: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    flags: dict[str, str], environment: dict[str, str], file: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(file)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WrongSetting) as error:
        read_settings(flags)
    assert said.format(file=path) in str(error.value)


def test_a_named_file_must_be_there_and_the_default_one_need_not(tmp_path: Path) -> None:
    assert read_settings({}).port == 8000
    with pytest.raises(WrongSetting, match="no such file"):
        read_settings({}, tmp_path / "nowhere.toml")


def test_a_variable_that_is_no_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown_variables(["LAGUNA_PORT", "LAGUNA_CONFIG", "PATH"]) == []
    assert unknown_variables(["LAGUNA_PROT"]) == [
        "LAGUNA_PROT in the environment is no setting; did you mean LAGUNA_PORT?"
    ]


def test_the_command_line_says_it_as_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file = written("queue = -1")
    monkeypatch.setenv("LAGUNA_PROT", "1")
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2
    assert f"queue in {file}" in result.output
    assert "did you mean LAGUNA_PORT?" in result.output


def test_config_names_another_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("port = 70000")
    result = CliRunner().invoke(main, ["serve", "--config", str(file)])
    assert result.exit_code == 2
    assert f"port in {file}" in result.output
    result = CliRunner().invoke(main, ["serve"], env={"LAGUNA_CONFIG": str(file)})
    assert f"port in {file}" in result.output
