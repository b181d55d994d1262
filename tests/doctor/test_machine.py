"""The machine, judged on made-up facts: no Mac is needed for what a Mac is told."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pydantic import SecretStr

from models.device import Device, default_device, on_own_thread
from server.doctor.finding import Finding, Level, Unread
from server.doctor.machine import Installed, MachineFacts, gather, machine_findings
from server.settings import Settings

MAC = MachineFacts(
    system="Darwin",
    release="15.6",
    processor="arm64",
    python="3.13.1",
    device=Device("Apple M4 Max", "Metal", "bfloat16", 2, 64 * 2**30, 48 * 2**30),
    project="1.0",
    installed=[Installed(Requirement("mlx>=0.32.2"), "0.32.4"), Installed(Requirement("click>=8.1"), "8.3.0")],
    cache=Path("/cache"),
    free=500_000_000_000,
    host="127.0.0.1",
    port=8000,
    address=None,
    door=0,
)


def told(facts: MachineFacts, area: str, *, fetching: bool = False) -> tuple[Level, str]:
    found = [finding for finding in machine_findings(facts, fetching=fetching) if finding.area == area]
    return found[-1].level, f"{found[-1].said} -> {found[-1].advice}"


def test_a_mac_in_order_has_nothing_but_good_findings() -> None:
    assert machine_findings(MAC, fetching=True) == [
        Finding("machine", "ok", "macOS 15.6; Metal on Apple M4 Max, 64 GiB of memory, bfloat16"),
        Finding("versions", "ok", "laguna-server 1.0, Python 3.13.1, mlx 0.32.4"),
        Finding("disk", "ok", "500 GB free for /cache"),
        Finding("address", "ok", "127.0.0.1 port 8000 is free"),
    ]


@pytest.mark.parametrize(
    ("changes", "area", "level", "said"),
    [
        ({"processor": "x86_64"}, "machine", "fail", "Python runs as x86_64"),
        ({"release": "13.7"}, "machine", "fail", "macOS 13.7 -> MLX needs macOS 14"),
        ({"device": Unread("no libmlx")}, "machine", "fail", "MLX does not run: no libmlx"),
        (
            {"system": "Linux", "device": Device("EPYC", "CPU", "float32", 4, 2**34, None)},
            "machine",
            "warn",
            "Linux; CPU on EPYC, 16 GiB of memory, float32: exact, and slow -> use it to test",
        ),
        (
            {"installed": [Installed(Requirement("mlx>=0.32.2"), "0.31.0"), Installed(Requirement("rich"), None)]},
            "versions",
            "fail",
            "needed: mlx>=0.32.2 (found: 0.31.0), rich (found: none)",
        ),
        ({"project": Unread("none")}, "versions", "warn", "laguna-server is not installed"),
        ({"free": 5_000_000_000}, "disk", "ok", "5 GB free"),
        ({"free": Unread("not yours")}, "disk", "warn", "/cache: not yours"),
        ({"address": Unread("in use")}, "address", "warn", "nobody can listen on 127.0.0.1 port 8000: in use"),
        ({"host": "0.0.0.0"}, "address", "warn", "every request is answered (--insecure) -> set an API key"),
        ({"host": "0.0.0.0", "door": 2}, "address", "ok", "reachable from outside this machine, with an API key"),
        ({"door": Unread("no key is set")}, "address", "fail", "no key is set -> the server does not start"),
        ({"host": "my-mac.local"}, "address", "warn", "reachable from outside"),
        ({"host": "::1"}, "address", "ok", "::1 port 8000 is free"),
        ({"host": "localhost"}, "address", "ok", "localhost port 8000 is free"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], area: str, level: Level, said: str) -> None:
    found, text = told(replace(MAC, **changes), area)
    assert (found, said in text) == (level, True), text


def test_little_room_matters_when_something_is_still_to_be_fetched() -> None:
    level, said = told(replace(MAC, free=5_000_000_000), "disk", fetching=True)
    assert level == "warn"
    assert "the smallest published target takes 22 GB" in said


def test_this_machine_is_told_as_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        facts = gather(Settings(port=taken.getsockname()[1]))
        assert facts.address == Unread("Address already in use")
        assert isinstance(facts.device, Device)
        assert facts.device == default_device()
        assert facts.device.memory > 2**28
        assert facts.device.dtype in ("float32", "bfloat16")
        assert told(facts, "versions")[0] == "ok"
    assert gather(Settings(port=0)).address is None


def test_work_on_a_thread_of_its_own_hands_on_its_value_and_its_error() -> None:
    assert on_own_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        on_own_thread(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        (Settings(host="0.0.0.0", port=0), "fail", "no API key is set"),
        (Settings(host="0.0.0.0", port=0, insecure=True), "warn", "every request is answered"),
        (Settings(host="0.0.0.0", port=0, api_key=(SecretStr("k"),)), "ok", "with an API key"),
        (Settings(port=0, api_key_file=Path("/no/such/file")), "fail", "the file of API keys /no/such/file"),
        (Settings(port=0), "ok", "127.0.0.1 port 0 is free"),
    ],
)
def test_who_may_ask_is_judged_as_the_server_would(settings: Settings, level: Level, said: str) -> None:
    found, text = told(gather(settings), "address")
    assert (found, said in text) == (level, True), text
