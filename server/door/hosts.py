"""Which names this server answers to. A page that rebinds its own name to this address is asked for by that name."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.door.answering import Answers, UnsafeSettings
from server.errors import ForeignHost, clipped

EVERY = "*"
_NAME = re.compile(r"[\w.-]+(:\d+)?|\[?[\da-fA-F:.]+\]?(:\d+)?", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether who listens there can only be reached from this machine."""
    return host.lower() == "localhost" or _is_loopback_address(host)


def _is_loopback_address(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def named(header: str) -> str:
    """The host in a Host header or a setting: no port, no brackets, no final dot, in lower case."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".") if host.count(":") <= 1 else host


@dataclass(frozen=True)
class Names:
    """What a Host header may say."""

    names: frozenset[str]
    addresses: bool
    """Whether any IP address will do: no foreign page can come from one that leads here."""

    @classmethod
    def of(cls, host: str, allowed: Iterable[str]) -> "Names":
        """Those of a server that listens on `host`, and the `allowed` ones beside.

        Raises:
            UnsafeSettings: one of them is no name that a Host header could hold.
        """
        allowed = tuple(allowed)
        wrong = next((name for name in allowed if name != EVERY and not _NAME.fullmatch(name.strip())), None)
        if wrong is not None:
            raise UnsafeSettings(f"--allowed-host {wrong!r} is no host: give a name or an address, such as mac.local")
        return cls(frozenset({"localhost", named(host), *map(named, allowed)}), not is_loopback(host))

    def hold(self, header: str) -> bool:
        """Whether the header is one of them."""
        name = named(header)
        if EVERY in self.names or name in self.names:
            return True
        return _address(name) is not None if self.addresses else _is_loopback_address(name)


class HostCheck:
    """Refuses requests for another host, before anything else is looked at. Plain ASGI."""

    def __init__(self, app: ASGIApp, names: Names, answers: Answers) -> None:
        self._app = app
        self._names = names
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is for this server."""
        header = Headers(scope=scope).get("host", "") if scope["type"] == "http" else None
        if header is None or self._names.hold(header):
            await self._app(scope, receive, send)
            return
        refusal = ForeignHost(ascii(clipped(header, 100))[1:-1])
        await self._answers(Request(scope), refusal)(scope, receive, send)
