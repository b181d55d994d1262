"""`python -m tests.faults.dying PORT FOLDER PIECES`: a server that is killed outright while it writes what it keeps."""

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from unittest.mock import patch

from models.decode import disk
from models.decode.archive import Stretch, written
from server.serving import serve_forever
from server.settings import Settings


def serve(port: int, folder: str, pieces: int) -> int:
    """Serve the embedded pair; the end comes before the piece of that number, of all files together, is written."""
    numbers = count()

    def until_the_end(stretch: Stretch, key: str) -> Iterator[bytes]:
        for piece in written(stretch, key):
            if next(numbers) >= pieces:
                os.kill(os.getpid(), signal.SIGKILL)
            yield piece

    with patch.object(disk, "written", until_the_end):
        return serve_forever(Settings(port=port, cache_dir=folder))


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
