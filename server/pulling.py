"""Fetching a pair from the hub without loading it."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from models.config_fields import ConfigError
from models.errors import CheckpointError, UnknownCheckpointError
from models.finding import choose, hub_name
from models.hub import fetch, is_hub_id
from models.progress import Report, size
from server.settings import Settings


def pull(settings: Settings, report: Report, say: Callable[[str], None]) -> int:
    """Fetch the target and the speculator that the settings name, as far as the cache lacks them.

    Args:
        settings: of the server.
        report: told of the bytes as they come.
        say: told in a line what lies where.

    Returns:
        1 where one of them cannot be had, else 0.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    if settings.model is None:
        say("the embedded pair comes with the project, so there is nothing to fetch: name a model of the hub")
        return 0
    try:
        folder = _folder(settings.model, settings.revision, report)
        say(f"target {settings.model}: {_size(folder)} in {folder}")
        given = hub_name(settings.model)
        choice = choose(settings.speculator, given, folder, partial(_folder, revision=None, report=report))
    except (CheckpointError, ConfigError) as error:
        say(f"error: {error}")
        return 1
    if choice.folder is None:
        say(f"no speculator: {choice.why_none}")
    else:
        say(f"speculator {choice.name}: {_size(choice.folder)} in {choice.folder}")
    for warning in choice.warnings:
        say(f"warning: {warning}")
    return 0


def _folder(name: str, revision: str | None, report: Report) -> Path:
    """Where a checkpoint lies, fetched if it is one of the hub's."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    if not is_hub_id(name):
        raise UnknownCheckpointError(f"no checkpoint {name!r}: give a hub id owner/name, or an existing folder")
    return fetch(name, revision, report=report)


def _size(folder: Path) -> str:
    return size(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
