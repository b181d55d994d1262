"""Addresses: whether somebody could listen there, and how a client calls them."""

import socket

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can call, and what to call instead on this machine."""


class CannotListen(OSError):
    """Nobody can listen there; the message is the system's reason alone."""


def try_address(host: str, port: int) -> None:
    """Listen for a moment.

    Raises:
        CannotListen: nobody could.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        # Python appends the address, which whoever tells of it says better.
        raise CannotListen((error.strerror or str(error)).partition(" (while attempting")[0]) from error


def base_url(host: str, port: int) -> str:
    """Where clients on this machine reach a server that listens there."""
    called = EVERYWHERE.get(host, host)
    return f"http://[{called}]:{port}" if ":" in called else f"http://{called}:{port}"
