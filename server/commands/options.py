"""What the sub-commands share: the file of settings, the pair by its two names, and wrong settings as usage errors."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from server.client.starting import Wanted
    from server.configuration import Given
    from server.settings import Settings

config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="LAGUNA_CONFIG",
    help="File of settings (TOML).  [default: ~/.config/laguna/config.toml, where there is one]",
)


def settings_from(given: Mapping[str, Given], config: Path | None) -> Settings:
    """What was given, over the environment, over the file, over the defaults.

    Raises:
        click.UsageError: a value or a name that will not do, with its place.
    """
    from server.configuration import WrongSetting, read_settings, unknown_variables

    for sentence in unknown_variables(os.environ):
        click.echo(f"Warning: {sentence}", err=True)
    try:
        return read_settings(given, config)
    except WrongSetting as error:
        raise click.UsageError(str(error)) from error


def _address(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} has no http:// or https:// before it", param=parameter)
    return value


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say which server is asked, or started: `url`, `api_key`, and as `flags` those of `laguna serve`."""

    @click.option("--url", callback=_address, help="A server that runs already, such as http://127.0.0.1:8000.")
    @click.option("--api-key", help="What opens it.  [default: the first key of the settings]")
    @click.option("--model", help="Checkpoint that is asked for, or started with.")
    @click.option("--speculator", help="Speculator of a server that is started.")
    @click.option("--host", help="Where the server listens.")
    @click.option("--port", help="Port it listens on.")
    @functools.wraps(command)
    def with_flags(
        model: str | None, speculator: str | None, host: str | None, port: str | None, **others: object
    ) -> None:
        given = {"model": model, "speculator": speculator, "host": host, "port": port}
        command(flags={name: value for name, value in given.items() if value is not None}, **others)

    return with_flags


def wanted(
    settings: Settings, url: str | None, api_key: str | None, flags: Mapping[str, str], config: Path | None
) -> Wanted:
    """The server that is meant.

    Raises:
        click.ClickException: the file of API keys cannot be read.
    """
    from server.client.starting import Wanted

    given = flags if config is None else {**flags, "config": str(config)}
    passed = [part for name, value in given.items() if name != "port" for part in (f"--{name}", value)]
    key = _key(settings) if api_key is None else api_key
    return Wanted(settings, url, key, flags.get("model"), tuple(passed))


def _key(settings: Settings) -> str | None:
    from server.keyfile import KeyFileError, read_keys

    if settings.api_key:
        return settings.api_key[0].get_secret_value()
    if settings.api_key_file is None:
        return None
    try:
        return read_keys(settings.api_key_file)[0]
    except KeyFileError as error:
        raise click.ClickException(str(error)) from error
