"""`python -m tests.server.door.failing PORT dies|hangs`: a server whose engine fails, set by the environment."""

import sys
import threading

from server.serving import run
from server.settings import Settings
from tests.server.script import ScriptPair, forever, says

if __name__ == "__main__":
    port, how = sys.argv[1:]
    pair = ScriptPair(forever if how == "hangs" else says("ok"), broken_rounds=10**6 if how == "dies" else 0)
    if how == "hangs":
        pair.gate = threading.Event()
    sys.exit(run(Settings.model_validate({"port": port}), lambda: pair))
