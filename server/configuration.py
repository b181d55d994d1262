"""The settings as they hold: flags over the environment over a file over the defaults, and who said what is wrong."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from server.settings import Folders, Settings

PREFIX = "LAGUNA_"
OTHER_VARIABLES = ("LAGUNA_CONFIG",)
"""Those that are read, but are no settings."""

Given = str | bool | tuple[str, ...] | None
"""What the command line says of a setting; None or an empty tuple: nothing."""


class WrongSetting(ValueError):
    """A value that will not do, or a name that is none; the message says where it stands."""


def default_file() -> Path:
    """Where settings are looked for when nobody names a file."""
    return Folders().xdg_config_home.expanduser() / "laguna" / "config.toml"


def read_settings(given: Mapping[str, Given], file: Path | None = None) -> Settings:
    """The settings, each from the first that states it: `given`, the environment, the file, the default.

    Args:
        given: what the command line says, by the settings' names.
        file: a TOML file; None for the default one, which need not exist.

    Raises:
        WrongSetting: a value or a name that will not do, or a file that cannot be read.
    """
    path = default_file() if file is None else file
    stated = _stated(path, wanted=file is not None)
    flags = {name: value for name, value in given.items() if value not in (None, ())}
    try:
        environment = EnvSettingsSource(Settings)()
    except SettingsError as error:
        raise WrongSetting(f"the environment: {error}") from error
    try:
        return Settings.model_validate(stated | environment | flags)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        raise WrongSetting(f"{_place(name, flags, environment, path)}{first['msg']}") from error


def unknown_variables(names: Iterable[str]) -> list[str]:
    """A sentence for each variable of the environment that looks like a setting and is none."""
    known = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields] + list(OTHER_VARIABLES)
    strange = sorted(name for name in names if name.startswith(PREFIX) and name not in known)
    return [f"{name} in the environment is no setting{_guess(name, known)}" for name in strange]


def _place(name: str, flags: Mapping[str, Any], environment: Mapping[str, Any], path: Path) -> str:
    if not name:
        return ""
    if name in flags:
        return f"--{name.replace('_', '-')}: "
    if name in environment:
        return f"{PREFIX}{name.upper()}: "
    return f"{name} in {path}: "


def _stated(path: Path, *, wanted: bool) -> dict[str, Any]:
    """What the file says, by the settings' names."""
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError as error:
        if not wanted:
            return {}
        raise WrongSetting(f"{path}: there is no such file") from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongSetting(f"{path} cannot be read: {error}") from error
    named = {name.replace("-", "_"): value for name, value in found.items()}
    for name in named:
        if name not in Settings.model_fields:
            raise WrongSetting(f"{name} in {path} is no setting{_guess(name, list(Settings.model_fields))}")
    return named


def _guess(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else "; laguna serve --help lists them"
