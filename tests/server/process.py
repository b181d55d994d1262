"""Servers in processes of their own: where they listen, and whether they answer yet."""

import socket

import httpx2


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def answers(http: httpx2.Client) -> bool:
    try:
        return http.get("/ready").status_code == 200
    except httpx2.TransportError:
        return False
