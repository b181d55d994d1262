"""The command `laguna`. What is heavy is imported only by the sub-command that needs it."""

import click

from server.commands.bench import bench
from server.commands.chat import chat
from server.commands.doctor import doctor
from server.commands.launch import launch
from server.commands.pull import pull
from server.commands.serve import serve
from server.commands.service import service

__all__ = ["main", "serve"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laguna-server")
def main() -> None:
    """A local OpenAI-compatible server for Laguna models with the DFlash block speculator."""


for command in (serve, chat, launch, bench, doctor, pull, service):
    main.add_command(command)
