"""`laguna pull`."""

from __future__ import annotations

from pathlib import Path

import click

from server.commands.options import config_option, settings_from


@click.command(short_help="Fetch a model and its speculator from the hub.")
@click.argument("model", required=False)
@click.argument("speculator", required=False)
@click.option("--revision", help="Branch, tag or commit of the model.")
@config_option
def pull(model: str | None, speculator: str | None, revision: str | None, config: Path | None) -> None:
    """Fetch a model and its speculator from the hub, to be served later.

    MODEL and SPECULATOR are what `serve` takes; without SPECULATOR, the one that was published for the model. Only what
    the cache lacks is fetched, and a connection that is cut is taken up again.

    The exit status is 0, 1 where something cannot be had, 2 for a wrong option.
    """
    settings = settings_from({"model": model, "speculator": speculator, "revision": revision}, config)

    from contextlib import closing

    from server.display import Display
    from server.pulling import pull as fetch_pair

    with closing(Display()) as display:
        raise SystemExit(fetch_pair(settings, display, click.echo))
