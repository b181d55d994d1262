"""`laguna service`: the server as a job that macOS keeps running."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from server.service.job import Job
    from server.service.launchd import Step

dry_run = click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")


@click.group(short_help="Let macOS keep the server running (launchd).")
def service() -> None:
    """Let macOS start the server at login and again when it fails (launchd)."""


@service.command(context_settings={"ignore_unknown_options": True})
@dry_run
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def install(dry_run: bool, arguments: tuple[str, ...]) -> None:
    """Install the job, or install it anew, and start it.

    ARGUMENTS are what `laguna serve` shall be started with. The job sees the settings file, but of this shell's
    environment only HF_HOME, HF_HUB_OFFLINE and HF_ENDPOINT.
    """
    _check(arguments)

    from server.service.launchd import install as steps

    _take(steps(_job(arguments), os.getuid()), dry_run)
    if not dry_run:
        click.echo("installed and started; laguna service status looks after it")


@service.command()
@dry_run
def uninstall(dry_run: bool) -> None:
    """Stop the job and remove it; its logs stay."""
    from server.service.launchd import uninstall as steps

    _take(steps(_job(), os.getuid()), dry_run)


@service.command()
def status() -> None:
    """Say whether the job runs, and where its logs are."""
    from server.service.launchd import launchctl
    from server.service.launchd import status as found

    _on_macos()
    click.echo("\n".join(found(_job(), os.getuid(), launchctl)))


def _job(arguments: tuple[str, ...] = ()) -> Job:
    from server.service.job import Job

    return Job(Path.home(), arguments, os.environ)


def _check(arguments: tuple[str, ...]) -> None:
    """What `laguna serve` would refuse is refused here: nobody would see it there."""
    from server.commands.options import settings_from
    from server.commands.serve import serve

    given = dict(serve.make_context("laguna serve", list(arguments)).params)
    if given["api_key"]:
        raise click.UsageError("--api-key would stand in the property list; put keys in a file: --api-key-file FILE")
    settings_from(given, given.pop("config"))


def _take(steps: list[Step], dry_run: bool) -> None:
    from server.service.launchd import ServiceError, launchctl, shown, take

    if dry_run:
        click.echo(shown(steps))
        return
    _on_macos()
    try:
        take(steps, launchctl)
    except (ServiceError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _on_macos() -> None:
    if sys.platform != "darwin":
        raise click.ClickException(
            "launchd is part of macOS; elsewhere let the system's own supervisor run `laguna serve` "
            "(--dry-run shows what would be done)"
        )
