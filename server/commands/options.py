"""What the sub-commands share: the file of settings, the pair by its two names, and wrong settings as usage errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

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
