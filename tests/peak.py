"""The most memory that this process has held, for checks that run in a process of their own."""

import re
import resource
import sys
from pathlib import Path


def peak() -> int:
    """Bytes. Linux hands a parent's own peak down to `ru_maxrss` of what it starts; the kernel's status does not."""
    if sys.platform == "linux":
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
