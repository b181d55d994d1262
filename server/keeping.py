"""Where earlier prompts and answers are kept, as the settings say: in memory, and on disk."""

import logging
from dataclasses import dataclass
from pathlib import Path

from models.decode.disk import Disk
from models.decode.folder import Folder
from models.decode.prefix import PrefixStore
from models.decode.shelf import ShelvedStore
from server.admission import GIB, kept_bytes
from server.backend import Pair
from server.replay import Replay
from server.settings import Settings
from server.shelved import ShelvedReplay

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """What later requests may go on from."""

    prefix: PrefixStore | None
    """Caches of earlier prompts; None where nothing is to be kept, or there is no room for it."""
    replay: Replay
    """Answers as they were sampled."""


def kept(pair: Pair, settings: Settings) -> Kept:
    """What there is of it, at the start."""
    budget = kept_bytes(pair, settings)
    if not budget:
        return Kept(None, Replay())
    if settings.cache_dir is None:
        return Kept(PrefixStore(budget), Replay())
    try:
        path = Path(settings.cache_dir).expanduser() / pair.fingerprint
        folder = Folder(path, round(settings.cache_dir_gib * GIB))
        disk, replay = Disk(folder, pair.fingerprint), ShelvedReplay(folder, pair.fingerprint)
    except OSError as error:
        log.warning("prompts are kept in memory alone, since --cache-dir cannot be used: %s", error)
        return Kept(PrefixStore(budget), Replay())
    return Kept(ShelvedStore(budget, disk), replay)
