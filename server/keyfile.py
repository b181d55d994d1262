"""API keys in a file: read by the server that wants them and by the clients that show one."""

import logging
import stat
from pathlib import Path

log = logging.getLogger(__name__)


class KeyFileError(ValueError):
    """A file of API keys that cannot be read, or holds none."""


def read_keys(path: Path) -> list[str]:
    """One key a line; blank lines and those that begin with # are not keys.

    Raises:
        KeyFileError: it cannot be read, or holds none.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"the file of API keys {path} cannot be read: {error}") from error
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("other users of this machine can read the API keys in %s; chmod 600 keeps them out", path)
    keys = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if not keys:
        raise KeyFileError(f"the file of API keys {path} holds none")
    return keys
