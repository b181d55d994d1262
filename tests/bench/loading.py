"""One process, one checkpoint: what loading it takes, as JSON on standard output."""

import json
import resource
import sys
import time
from pathlib import Path

import mlx.core as mx

from models.checkpoint import load_target
from tests.peak import peak

CHUNK = 1 << 24
"""Bytes in one read of the file."""


def read_seconds(path: Path) -> float:
    """Reading the whole file once, nothing kept."""
    buffer = bytearray(CHUNK)
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def resident_now() -> int:
    """Bytes in memory; where the system does not tell (macOS), the most there ever were."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * resource.getpagesize() if pages.is_file() else peak()


def main() -> None:
    """`python -m tests.bench.loading FOLDER`; the file is read once before, so that all of it is in the file cache."""
    folder = Path(sys.argv[1])
    file = folder / "model.safetensors"
    read_seconds(file)
    reading = read_seconds(file)
    before = resident_now()
    mx.reset_peak_memory()
    began = time.perf_counter()
    target = load_target(folder)
    seconds = time.perf_counter() - began
    # While it is loaded, parts of joined projections are views of them: only the allocator counts each byte once.
    held, size = mx.get_active_memory(), file.stat().st_size
    figures = {
        "file_mb": size / 1e6,
        "held_mb": held / 1e6,
        "read_seconds": reading,
        "load_seconds": seconds,
        "load_seconds_per_gb": seconds / (size / 1e9),
        "load_to_read": seconds / reading,
        "peak": mx.get_peak_memory() / held,
        "peak_rss": (peak() - before) / held,
    }
    print(json.dumps(figures))
    del target
    mx.clear_streams()


if __name__ == "__main__":
    main()
