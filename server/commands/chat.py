"""`laguna chat`."""

from __future__ import annotations

from pathlib import Path

import click

from server.commands.options import config_option, server_options, settings_from, wanted


@click.command(short_help="Chat with the model that is served.")
@click.argument("message", required=False)
@server_options
@click.option("--system", default="", metavar="TEXT", help="System prompt.")
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with an array of tools (JSON); you are asked for their results.",
)
@click.option("--think/--no-think", default=None, help="Whether the model thinks.  [default: as its template has it]")
@click.option("--tokens", is_flag=True, help="Tint each token by who wrote it.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="0 takes the likeliest token.")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer.")
@config_option
def chat(
    message: str | None,
    url: str | None,
    api_key: str | None,
    flags: dict[str, str],
    system: str,
    tools: Path | None,
    think: bool | None,
    tokens: bool,
    temperature: float | None,
    max_tokens: int | None,
    config: Path | None,
) -> None:
    """Chat with the model that is served, or get MESSAGE answered.

    The server at --host and --port (or --url) is asked; where none runs, one is started, and ends with the chat.
    Without a terminal, standard input is the one question, and the answer alone is written.

    The exit status is 0, 1 where no server can be had or the question is not answered, 2 for a wrong option.
    """
    settings = settings_from(flags, config)

    from server.chat.command import Asked, run

    server = wanted(settings, url, api_key, flags, config)
    raise SystemExit(run(Asked(server, message, system, tools, think, tokens, temperature, max_tokens)))
