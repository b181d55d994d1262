"""How much memory this machine has for a model."""

from pathlib import Path

from models.device import default_device
from models.memory import GIB, Limit

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def memory_limit(chosen: float | None = None) -> Limit:
    """Memory that weights and conversations may take: what was chosen, else what the machine says.

    On Metal that is the working set that it recommends for the GPU; on Linux what is available now, to this container
    where it has less.

    Args:
        chosen: GiB, whatever the machine has.
    """
    if chosen is not None:
        return Limit(int(chosen * GIB), "as --memory-limit says")
    device = default_device()
    if device.working_set is not None:
        return Limit(
            device.working_set, f"what {device.backend} recommends of this machine's {device.memory / GIB:.0f}"
        )
    if MEMINFO.exists():
        return linux_limit(MEMINFO.read_text(), group_room(GROUP))
    return Limit(device.memory, "all of this machine's memory")


def linux_limit(meminfo: str, group: int | None) -> Limit:
    """The smaller of what is available on the machine (the text of /proc/meminfo) and what is left to the container."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    if group is not None and group < available:
        return Limit(group, "what is left of this container's memory")
    return Limit(available, "what is available on this machine now")


def group_room(folder: Path) -> int | None:
    """Bytes left to a control group (version 2); None without a limit."""
    try:
        most, used = (folder / "memory.max").read_text().strip(), (folder / "memory.current").read_text()
    except OSError:
        return None
    return None if most == "max" else max(0, int(most) - int(used))
