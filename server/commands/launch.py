"""`laguna launch`."""

from __future__ import annotations

from pathlib import Path

import click

from server.commands.options import config_option, server_options, settings_from, wanted

NAMES = ("opencode", "codex", "claude", "qwen", "aider", "pool")


@click.command(short_help="Start a coding agent against the server.")
@click.argument("agent", type=click.Choice(NAMES), metavar="AGENT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--print", "only_print", is_flag=True, help="Print what would be set, and start nothing.")
@server_options
@config_option
def launch(
    agent: str,
    arguments: tuple[str, ...],
    only_print: bool,
    url: str | None,
    api_key: str | None,
    flags: dict[str, str],
    config: Path | None,
) -> None:
    """Start an installed coding agent against the server, and say what was set for it.

    AGENT is one of opencode, codex, claude, qwen, aider and pool.

    The server at --host and --port (or --url) is used; where none runs, one is started, and ends with the agent. What
    follows -- goes to the agent: laguna launch claude -- -p "Say hello." No file of the agent's is changed.

    The exit status is the agent's, 1 where it cannot be launched, 2 for a wrong option.
    """
    settings = settings_from(flags, config)

    from server.launch.command import Launch, run, show

    asked = Launch(agent, wanted(settings, url, api_key, flags, config), arguments)
    raise SystemExit(show(asked) if only_print else run(asked))
