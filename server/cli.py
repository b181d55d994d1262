"""The command `laguna`. What is heavy is imported only by the sub-command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

    from server.settings import Settings


class ServeCommand(click.Command):
    """A command whose flags are the settings, read from them only when somebody asks for this command."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """One option for each setting, then click's own."""
        from server.settings import Settings

        return [_option(name, field) for name, field in Settings.model_fields.items()] + super().get_params(ctx)


def _option(name: str, field: FieldInfo) -> click.Option:
    if field.annotation is bool:
        flag = f"--{name.replace('_', '-')}"
        return click.Option([flag, name], help=field.description, flag_value="true", default=None)
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    several = field.default == ()
    default = "" if field.default is None or several else f"  [default: {field.default}]"
    again = " May be given several times." if several else ""
    return click.Option(
        [f"--{name.replace('_', '-')}", name],
        help=f"{field.description}{again}{default}",
        multiple=several,
        metavar="|".join(choices) or "VALUE",
    )


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laguna-server")
def main() -> None:
    """A local OpenAI-compatible server for Laguna models with the DFlash block speculator."""


@main.command(cls=ServeCommand)
def serve(**given: str | tuple[str, ...] | None) -> None:
    """Serve a model over HTTP.

    Every option can be set in the environment too, as LAGUNA_<NAME>; the command line wins.
    """
    settings = _settings(given)

    from server.serving import serve_forever

    raise SystemExit(serve_forever(settings))


@main.command()
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
def doctor(model: str | None, speculator: str | None, json: bool, exactness: bool, tokens: int) -> None:
    """Check a checkpoint, its speculator and this machine, and say what to do.

    MODEL and SPECULATOR are what `serve` takes; without them, what LAGUNA_MODEL and LAGUNA_SPECULATOR say, else the
    embedded pair. No weights are read, except with --exactness.

    The exit status is 0 when nothing fails (warnings included), 1 when something does, 2 for a wrong option.
    """
    settings = _settings({"model": model, "speculator": speculator})

    # Where MLX has no backend for this machine, its import is what fails, and nothing else can be examined.
    try:
        from server.doctor.command import run
    except ImportError as error:
        raise click.ClickException(
            f"what the server is built on cannot be imported: {error}. Install the project anew, in a fresh "
            "environment; MLX needs Apple silicon with a Python for arm64, or Linux with glibc 2.35 or newer"
        ) from error

    raise SystemExit(run(settings, tokens=tokens if exactness else None, json=json))


@main.command()
@click.argument("model", required=False)
@click.argument("speculator", required=False)
@click.option(
    "--calibration",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here what `laguna serve --calibration` starts from.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
@click.option(
    "--plots", type=click.Path(file_okay=False, path_type=Path), help="Draw plots into this folder (needs matplotlib)."
)
@click.option(
    "--tokens", type=click.IntRange(8, 4096), default=128, show_default=True, help="Longest answer to each prompt."
)
@click.option(
    "--context",
    "contexts",
    type=click.IntRange(16),
    multiple=True,
    help="Tokens of context to time rounds at; may be given several times.  [default: 512, 2048, 8192]",
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=7, show_default=True, help="Rounds of each kind.")
def bench(
    model: str | None,
    speculator: str | None,
    calibration: Path | None,
    json_file: Path | None,
    plots: Path | None,
    tokens: int,
    contexts: tuple[int, ...],
    repeats: int,
) -> None:
    """Measure a pair on this machine: what blocks cost, how many drafts are accepted, and which width pays.

    MODEL and SPECULATOR are what `serve` takes; without them, what LAGUNA_MODEL and LAGUNA_SPECULATOR say, else the
    embedded pair. It takes a few minutes; nothing else should run meanwhile.

    The exit status is 0, 1 where the pair cannot be loaded or plots cannot be drawn, 2 for a wrong option.
    """
    settings = _settings({"model": model, "speculator": speculator})

    from server.bench.command import Wanted, run
    from server.bench.measure import CONTEXTS, Measurement

    measured = Measurement(tokens=tokens, contexts=contexts or CONTEXTS, repeats=repeats)
    raise SystemExit(run(settings, measured, Wanted(calibration, json_file, plots)))


def _settings(given: Mapping[str, str | tuple[str, ...] | None]) -> Settings:
    """What was given, over the environment, over the defaults."""
    from pydantic import ValidationError

    from server.settings import Settings

    try:
        return Settings.model_validate({name: value for name, value in given.items() if value not in (None, ())})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise click.UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
