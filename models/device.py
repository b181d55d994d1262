"""What MLX runs on: the device, the dtype there, and how much memory its arrays may take."""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import mlx.core as mx

from models.checkpoint import run_dtype

Result = TypeVar("Result")


@dataclass(frozen=True)
class Device:
    """The default device. Sizes in bytes."""

    name: str
    backend: str
    """"Metal", "CUDA" or "CPU"."""
    dtype: str
    """What the networks compute in, such as "bfloat16"."""
    width: int
    """Bytes of one such number."""
    memory: int
    """Of the whole machine."""
    working_set: int | None
    """What the system lets the GPU keep resident (`max_recommended_working_set_size`); None on other devices."""


def default_device() -> Device:
    """Ask MLX and the system."""
    info = mx.device_info()
    gpu = mx.default_device() == mx.Device(mx.gpu)
    working_set = info.get("max_recommended_working_set_size")
    return Device(
        name=str(info.get("device_name", platform.processor() or "unknown")),
        backend=("Metal" if mx.metal.is_available() else "CUDA") if gpu else "CPU",
        dtype=str(run_dtype()).removeprefix("mlx.core."),
        width=run_dtype().size,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        working_set=int(working_set) if working_set else None,
    )


def on_own_thread(work: Callable[[], Result]) -> Result:
    """The plain value that `work` returns, run on a thread whose MLX streams go with it.

    An interrupt is raised at once; the process then ends when `work` does.
    """

    def cleared() -> Result:
        try:
            return work()
        finally:
            mx.clear_streams()

    pool = ThreadPoolExecutor(1, "mlx")
    try:
        return pool.submit(cleared).result()
    finally:
        pool.shutdown(wait=False)
