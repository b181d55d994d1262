"""Where OpenBLAS lies on this machine, and how a child process is made to use it instead of MLX's own."""

import os
from collections.abc import Sequence
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
    return own if library is None else own | {"LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
