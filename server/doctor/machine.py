"""The machine: what MLX runs on, what is installed, room on the disk, and the address that would be listened on."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from huggingface_hub.constants import HF_HUB_CACHE
from packaging.requirements import Requirement

from models.device import Device, default_device
from models.hub import free_bytes
from server.address import try_address
from server.doctor.finding import Finding, Unread, known
from server.door.hosts import is_loopback
from server.door.keys import keys_of
from server.settings import Settings

PROJECT = "laguna-server"
SHOWN = ("mlx", "mlx-lm")
MACOS = 14
"""The oldest that MLX's wheels run on."""
SMALLEST = 22e9
"""Bytes of the smallest published target, Laguna-XS-2.1 in NVFP4."""


@dataclass(frozen=True)
class Installed:
    """One requirement of this project, and the version that is there (None: not installed)."""

    requirement: Requirement
    version: str | None


@dataclass(frozen=True)
class MachineFacts:
    """Everything here that is no checkpoint. Sizes in bytes."""

    system: str
    """As `platform.system()` calls it."""
    release: str
    """The version of macOS, or of the kernel elsewhere."""
    processor: str
    python: str
    device: Device | Unread
    project: str | Unread
    """The version of this project."""
    installed: Sequence[Installed] | Unread
    cache: Path
    """Of the Hugging Face hub."""
    free: int | Unread
    """On the disk of the cache."""
    host: str
    port: int
    address: Unread | None
    """Why nobody can listen there; None where one can."""
    door: Unread | int
    """How many API keys open it, or why it would not be opened."""


def gather(settings: Settings) -> MachineFacts:
    """Look around."""
    host, port = settings.host, settings.port
    cache = Path(HF_HUB_CACHE).expanduser()
    return MachineFacts(
        system=platform.system(),
        release=platform.mac_ver()[0] or platform.release(),
        processor=platform.machine(),
        python=platform.python_version(),
        device=known(default_device),
        project=known(lambda: metadata.version(PROJECT)),
        installed=known(_installed),
        cache=cache,
        free=known(lambda: free_bytes(cache)),
        host=host,
        port=port,
        address=known(lambda: try_address(host, port)),
        door=known(lambda: len(keys_of(settings))),
    )


def _installed() -> list[Installed]:
    """The requirements that count on this system, without those of extras."""
    wanted = [Requirement(text) for text in metadata.requires(PROJECT) or ()]
    here = [item for item in wanted if item.marker is None or item.marker.evaluate({"extra": ""})]
    return [Installed(item, _version(item.name)) for item in here]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def machine_findings(facts: MachineFacts, *, fetching: bool) -> list[Finding]:
    """All of it; `fetching` says that a checkpoint has still to come from the hub."""
    return [
        *_system_findings(facts),
        _version_finding(facts),
        _disk_finding(facts, fetching),
        *_address_findings(facts),
    ]


def _system_findings(facts: MachineFacts) -> list[Finding]:
    if isinstance(facts.device, Unread):
        return [Finding("machine", "fail", f"MLX does not run: {facts.device.why}", "install the project anew")]
    device = facts.device
    named = f"{device.backend} on {device.name}, {device.memory / 2**30:.0f} GiB of memory, {device.dtype}"
    if facts.system == "Darwin" and facts.processor != "arm64":
        said = f"Python runs as {facts.processor}: MLX needs Apple silicon, and Python built for it"
        return [Finding("machine", "fail", said, "install a Python for arm64, on Apple silicon")]
    if facts.system == "Darwin" and int(facts.release.partition(".")[0]) < MACOS:
        return [Finding("machine", "fail", f"macOS {facts.release}", f"MLX needs macOS {MACOS} or newer")]
    if device.backend == "Metal":
        return [Finding("machine", "ok", f"macOS {facts.release}; {named}")]
    advice = "use it to test and to develop; to serve a real checkpoint, use a Mac with Apple silicon"
    return [Finding("machine", "warn", f"{facts.system}; {named}: exact, and slow", advice)]


def _version_finding(facts: MachineFacts) -> Finding:
    reinstall = "install the project anew, in a fresh environment"
    if isinstance(facts.project, Unread) or isinstance(facts.installed, Unread):
        return Finding("versions", "warn", f"{PROJECT} is not installed: what it needs cannot be compared", reinstall)
    lacking = [
        f"{item.requirement} (found: {item.version or 'none'})"
        for item in facts.installed
        if item.version is None or not item.requirement.specifier.contains(item.version, prereleases=True)
    ]
    if lacking:
        return Finding("versions", "fail", f"needed: {', '.join(lacking)}", reinstall)
    shown = ", ".join(f"{item.requirement.name} {item.version}" for item in facts.installed if _is_shown(item))
    return Finding("versions", "ok", f"{PROJECT} {facts.project}, Python {facts.python}, {shown}")


def _is_shown(item: Installed) -> bool:
    return item.requirement.name in SHOWN


def _disk_finding(facts: MachineFacts, fetching: bool) -> Finding:
    if isinstance(facts.free, Unread):
        return Finding("disk", "warn", f"{facts.cache}: {facts.free.why}", "set HF_HOME to a folder that can be read")
    said = f"{facts.free / 1e9:.0f} GB free for {facts.cache}"
    if fetching and facts.free < SMALLEST:
        advice = f"make room: the smallest published target takes {SMALLEST / 1e9:.0f} GB; HF_HOME moves the cache"
        return Finding("disk", "warn", said, advice)
    return Finding("disk", "ok", said)


def _address_findings(facts: MachineFacts) -> list[Finding]:
    where = f"{facts.host} port {facts.port}"
    if facts.address is None:
        free = Finding("address", "ok", f"{where} is free")
    else:
        advice = "if that is not this server already running, choose another with --port"
        free = Finding("address", "warn", f"nobody can listen on {where}: {facts.address.why}", advice)
    return [free, *_door_findings(facts)]


def _door_findings(facts: MachineFacts) -> list[Finding]:
    """Who may ask, where that is more than this machine or the server would not start."""
    if isinstance(facts.door, Unread):
        return [Finding("address", "fail", facts.door.why, "the server does not start with these settings")]
    if is_loopback(facts.host):
        return []
    if facts.door:
        return [Finding("address", "ok", f"{facts.host} is reachable from outside this machine, with an API key")]
    said = f"{facts.host} is reachable from outside this machine, and every request is answered (--insecure)"
    return [Finding("address", "warn", said, "set an API key (--api-key-file, LAGUNA_API_KEY), or listen on 127.0.0.1")]
