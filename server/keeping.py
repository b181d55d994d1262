"""Where earlier prompts are kept, as the settings say: in memory, and on disk."""

import logging
from pathlib import Path

from models.decode.disk import Disk
from models.decode.prefix import PrefixStore
from models.decode.shelf import ShelvedStore
from server.admission import GIB, kept_bytes
from server.backend import Pair
from server.settings import Settings

log = logging.getLogger(__name__)


def prefix_store(pair: Pair, settings: Settings) -> PrefixStore | None:
    """What prompts may resume from; None where nothing is to be kept, or there is no room for it."""
    budget = kept_bytes(pair, settings)
    if not budget:
        return None
    if settings.cache_dir is None:
        return PrefixStore(budget)
    try:
        folder = Path(settings.cache_dir).expanduser() / pair.fingerprint
        return ShelvedStore(budget, Disk(folder, pair.fingerprint, round(settings.cache_dir_gib * GIB)))
    except OSError as error:
        log.warning("prompts are kept in memory alone, since --cache-dir cannot be used: %s", error)
        return PrefixStore(budget)
