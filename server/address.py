"""Whether somebody could listen somewhere."""

import socket


def try_address(host: str, port: int) -> None:
    """Listen for a moment.

    Raises:
        OSError: nobody could.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, port), family=family).close()
