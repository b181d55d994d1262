"""`laguna doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from server.commands.options import config_option, settings_from


@click.command(short_help="Check a checkpoint, its speculator and this machine.")
@click.argument("model", required=False)
@click.argument("speculator", required=False)
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.option("--exactness", is_flag=True, help="Load the pair and compare blocks of every width with single steps.")
@click.option(
    "--tokens",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    help="Positions a prompt, with --exactness.",
)
@config_option
def doctor(
    model: str | None, speculator: str | None, json: bool, exactness: bool, tokens: int, config: Path | None
) -> None:
    """Check a checkpoint, its speculator and this machine, and say what to do.

    MODEL and SPECULATOR are what `serve` takes; without them, what the settings say, else the embedded pair.
    No weights are read, except with --exactness.

    The exit status is 0 when nothing fails (warnings included), 1 when something does, 2 for a wrong option.
    """
    settings = settings_from({"model": model, "speculator": speculator}, config)

    # Where MLX has no backend for this machine, its import is what fails, and nothing else can be examined.
    try:
        from server.doctor.command import run
    except ImportError as error:
        raise click.ClickException(
            f"what the server is built on cannot be imported: {error}. Install the project anew, in a fresh "
            "environment; MLX needs Apple silicon with a Python for arm64, or Linux with glibc 2.35 or newer"
        ) from error

    raise SystemExit(run(settings, tokens=tokens if exactness else None, json=json))
