"""Finding the speculator of a target: the one asked for, one that lies beside it, or the published one."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from models.config import TargetConfig, read_json
from models.config_fields import ConfigError
from models.errors import CheckpointError, UnknownCheckpointError
from models.packing import read_packing
from models.pairing import check_pair, read_speculator
from models.partner import Identity, name_warnings, partner, sibling, speculator_identity, target_identity

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The speculator to load.

    Attributes:
        folder: where it lies; None: the target decodes alone.
        given: its name on the hub; empty where it is a folder here.
        part: what to call one that is part of the checkpoint; empty for others.
        why_none: one line for clients, without paths; None where there is a folder.
        guessed: nobody asked for it and it is not part of the checkpoint: where it fails, the target decodes alone.
        warnings: what is doubtful about the pair, for clients too, so without paths.
        trouble: why one that nobody asked for cannot be used, for whoever runs the server.
    """

    folder: Path | None = None
    given: str = ""
    part: str = ""
    why_none: str | None = None
    guessed: bool = False
    warnings: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def name(self) -> str | None:
        """What to call it: its name on the hub, or its folder's, after the target's where it is part of that."""
        return self.given or self.part or (self.folder.resolve().name if self.folder else None)

    def failed(self, error: Exception) -> "Choice":
        """The target alone, and why, where nobody asked for this one."""
        told = f"{self.name} goes with this target but cannot be used, so it decodes plainly: {error}"
        return Choice(why_none=f"its speculator {self.name} cannot be used; the server's log says why", trouble=told)


def find_speculator(folder: Path) -> Path | None:
    """The speculator that lies beside a target, in its folder `speculator`."""
    beside = folder / "speculator"
    try:
        return beside if (beside / "config.json").is_file() else None
    # It is there, and whoever reads it says what is wrong with it.
    except OSError:
        return beside


def hub_name(name: str) -> str:
    """The name if it means a checkpoint on the hub; empty where it is a folder here."""
    return "" if Path(name).expanduser().exists() else name


def choose(wanted: str, given: str, folder: Path, fetch: Callable[[str], Path]) -> Choice:
    """The speculator for a target, checked against it before any weight is read.

    Args:
        wanted: "none", "auto", or the name of a checkpoint.
        given: the target's name; empty where it is a folder.
        folder: where the target lies.
        fetch: gives the folder of a checkpoint by its name.

    Raises:
        CheckpointError: the one asked for cannot be found, or does not belong to the target (`PairError`).
        ConfigError: a field of a configuration that will not do.
    """
    if wanted == "none":
        return Choice(why_none="the server runs without a speculator")
    target = _target(given, folder)
    found = _automatic(target, given, folder, fetch) if wanted == "auto" else _asked(wanted, fetch)
    if found.folder is None:
        return found
    try:
        check_pair(TargetConfig.from_path(folder), read_speculator(found.folder))
    except (CheckpointError, ConfigError) as error:
        if not found.guessed:
            raise
        return found.failed(error)
    path = found.folder.resolve()
    own = speculator_identity(found.given, path, read_json(path / "config.json"), _card(path))
    return replace(found, warnings=name_warnings(target, own))


def _asked(wanted: str, fetch: Callable[[str], Path]) -> Choice:
    """The one that somebody named."""
    try:
        return Choice(fetch(wanted), hub_name(wanted))
    except UnknownCheckpointError as error:
        raise UnknownCheckpointError(
            f"no speculator {wanted!r}: give an existing folder, a hub id owner/name, 'auto' for the one that goes "
            "with the model, or 'none'"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"the speculator cannot be had: {error}") from error


def _automatic(target: Identity, given: str, folder: Path, fetch: Callable[[str], Path]) -> Choice:
    """In the checkpoint, in a folder beside it, or published for it."""
    if inside := find_speculator(folder):
        return Choice(fetch(str(inside)), part=f"{given or folder.resolve().name}/{inside.name}")
    if not given and (beside := _beside(folder.resolve(), target)):
        return _guessed(beside, "", fetch)
    proposal = partner(target)
    if proposal.name is None:
        return Choice(why_none=proposal.why_none)
    log.info("looking for %s, the speculator published for this target", proposal.name)
    return _guessed(None, proposal.name, fetch)


def _guessed(folder: Path | None, name: str, fetch: Callable[[str], Path]) -> Choice:
    """A speculator that nobody asked for: done without where it cannot be had."""
    try:
        return Choice(fetch(name or str(folder)), name, guessed=True)
    except CheckpointError as error:
        return Choice(folder, name).failed(error)


def _target(given: str, folder: Path) -> Identity:
    path = folder.resolve()
    return target_identity(given, path, read_packing(path), _card(path))


def _beside(folder: Path, target: Identity) -> Path | None:
    """A folder next to the target's that is named as its speculator."""
    try:
        others = {path.name for path in folder.parent.iterdir() if (path / "config.json").is_file()}
    # Nobody asked for what lies around it.
    except OSError as error:
        log.info("no speculator is looked for beside %s: %s", folder.name, error)
        return None
    found = sibling(folder.name, target, others - {folder.name})
    return None if found is None else folder.parent / found


def _card(folder: Path) -> str:
    """The beginning of the model card, where there is one that can be read."""
    try:
        return (folder / "README.md").read_bytes()[:4096].decode("utf-8", "replace")
    except OSError:
        return ""
