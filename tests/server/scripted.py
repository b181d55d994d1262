"""`python -m tests.server.scripted PORT`: the server as the command line runs it, around a script that never ends."""

import sys

from server.serving import run
from server.settings import Settings
from tests.server.script import ScriptPair, forever

if __name__ == "__main__":
    pair = ScriptPair(forever, pace=0.02, context_length=10**6)
    sys.exit(run(Settings(port=int(sys.argv[1]), keep_alive=1, shutdown_grace=0.3), lambda: pair))
