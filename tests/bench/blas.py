"""Where OpenBLAS lies on this machine, and how a child process is made to use it instead of MLX's own."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

PLACES = (
    "/usr/lib/*-linux-gnu/openblas-pthread/libblas.so.3",
    "/usr/lib/*-linux-gnu/libopenblas.so.0",
    "/usr/lib64/libopenblasp.so.0",
    "/usr/lib64/libopenblas.so.0",
    "/usr/lib/libopenblas.so.0",
    "/usr/local/lib/libopenblas.so.0",
    "/opt/OpenBLAS/lib/libopenblas.so.0",
)
ABSENT = "OpenBLAS was not found; on Debian and Ubuntu: apt-get install libopenblas0-pthread"


def find_openblas(places: Sequence[str] = PLACES, root: Path = Path("/")) -> Path | None:
    """The first OpenBLAS among the usual places, or None."""
    return next((found for place in places for found in sorted(root.glob(place.lstrip("/")))), None)


def environment(library: Path | None) -> dict[str, str]:
    """The environment of a child that uses `library` (None: the BLAS that came with MLX). One thread: tiny matrices."""
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if library is None:
        return own
    own |= {"LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
    return own if "OPENBLAS_CORETYPE" in own else own | core_type(chosen_core(own), processor_flags())


def core_type(chosen: str, flags: Collection[str]) -> dict[str, str]:
    """What to tell an OpenBLAS that is older than the processor: it then chose the kernels of 2004, `Prescott`."""
    if chosen != "Prescott":
        return {}
    known = (("avx512vl", "SkylakeX"), ("avx2", "Haswell"))
    return next(({"OPENBLAS_CORETYPE": core} for flag, core in known if flag in flags), {})


def chosen_core(own: dict[str, str]) -> str:
    """The kernels that the OpenBLAS of an environment chooses, by its own name for them; empty if it does not say."""
    command = [sys.executable, "-S", "-c", ""]
    said = subprocess.run(command, env=own | {"OPENBLAS_VERBOSE": "2"}, check=True, capture_output=True, text=True)
    found = re.search(r"^Core: (\S+)$", said.stderr, re.MULTILINE)
    return found[1] if found else ""


def processor_flags(file: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the processor can do, as Linux names it."""
    lines = file.read_text().splitlines() if file.exists() else []
    return frozenset(word for line in lines if line.startswith("flags") for word in line.partition(":")[2].split())
