"""Where earlier prompts are kept, as the settings say: in memory, and on disk."""

import logging
from pathlib import Path

from models.decode.disk import Disk
from models.decode.prefix import PrefixStore
from models.decode.shelf import ShelvedStore
from server.backend import Pair
from server.settings import Settings

log = logging.getLogger(__name__)

GIB = 2**30


def prefix_store(pair: Pair, settings: Settings) -> PrefixStore | None:
    """What prompts may resume from, within the bytes that were said, or a quarter of what the weights leave."""
    if settings.prefix_cache_gib == 0:
        return None
    budget = pair.spare // 4 if settings.prefix_cache_gib is None else round(settings.prefix_cache_gib * GIB)
    if settings.cache_dir is None:
        return PrefixStore(budget)
    try:
        folder = Path(settings.cache_dir).expanduser() / pair.fingerprint
        return ShelvedStore(budget, Disk(folder, pair.fingerprint, round(settings.cache_dir_gib * GIB)))
    except OSError as error:
        log.warning("prompts are kept in memory alone, since --cache-dir cannot be used: %s", error)
        return PrefixStore(budget)
