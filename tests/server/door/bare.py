"""Bytes on a bare socket, for what no HTTP client would send."""

import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.server.stand import Stand


@dataclass(frozen=True)
class Heard:
    """What came back on a connection, up to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error object, whole and as JSON."""
        assert self.headers["content-type"].startswith("application/json")
        return json.loads(self.body)["error"]


def connected(served: Stand) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=10)


def head(*lines: str, host: str = "localhost") -> bytes:
    return "\r\n".join([*lines[:1], f"Host: {host}", *lines[1:], "", ""]).encode()


def heard(sock: socket.socket) -> Heard:
    """Everything that comes until the server closes."""
    came = b""
    while part := sock.recv(1 << 16):
        came += part
    first, _, body = came.partition(b"\r\n\r\n")
    status, *lines = first.decode().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Heard(int(status.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, body)


def says(served: Stand, sent: bytes) -> Heard:
    with connected(served) as sock:
        sock.sendall(sent)
        return heard(sock)
