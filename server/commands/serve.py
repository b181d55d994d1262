"""`laguna serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from server.commands.options import config_option, settings_from

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic.fields import FieldInfo

    from server.configuration import Given


class ServeCommand(click.Command):
    """A command whose flags are the settings, read from them only when somebody asks for this command."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """One option for each setting, then click's own."""
        from server.settings import Settings

        return [_option(name, field) for name, field in Settings.model_fields.items()] + super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options alone: a model that stands by itself, as for the other commands, is answered with the option."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest:
            ctx.fail(f"Got unexpected extra argument ({rest[0]}): a model is named with --model.")
        return rest


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


@click.command(cls=ServeCommand)
@config_option
def serve(config: Path | None, **given: Given) -> None:
    """Serve a model over HTTP.

    Every option can be set in the environment too, as LAGUNA_<NAME>, and in a file, as NAME = VALUE; the command line
    wins over the environment, and that over the file.
    """
    settings = settings_from(given, config)

    from server.serving import serve_forever

    raise SystemExit(serve_forever(settings))
