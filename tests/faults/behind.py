"""`python -m tests.faults.behind PORT FOLDER`: a server whose disk writes nothing until a signal has come.

It has as much time for an orderly end as a busy machine needs.
"""

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from unittest.mock import patch

from models.decode import disk
from models.decode.archive import Stretch, written
from server import draining, engine
from server.draining import DrainingServer
from server.serving import serve_forever
from server.settings import Settings
from tests.server.stand import PATIENCE


def serve(port: int, folder: str) -> int:
    """Serve the embedded pair, a few prompt tokens a round."""
    told, handled = threading.Event(), DrainingServer.handle_exit

    def held_back(stretch: Stretch, key: str) -> Iterator[bytes]:
        told.wait()
        yield from written(stretch, key)

    def handle(server: DrainingServer, sig: int, frame: FrameType | None) -> None:
        handled(server, sig, frame)
        told.set()

    with (
        patch.object(disk, "written", held_back),
        patch.object(DrainingServer, "handle_exit", handle),
        patch.object(draining, "HARD_STOP", PATIENCE),
        patch.object(engine, "FLUSH", PATIENCE),
    ):
        return serve_forever(Settings(port=port, cache_dir=folder, prefill_chunk=16))


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1]), sys.argv[2]))
