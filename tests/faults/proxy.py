"""A small TCP proxy between client and server: delays, throttles, stalls, cuts or resets what goes through."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Trouble:
    """What happens to the bytes of one direction."""

    delay: float = 0.0
    """Seconds before each piece goes on."""
    piece: int = 1 << 16
    """Bytes in a piece, at most."""
    after: int | None = None
    """So many bytes go through before `then` happens; None: it never does."""
    then: Literal["cut", "reset", "half-close", "stall"] = "cut"
    """Close both sides in order, or with a reset; end this direction alone; or let nothing more through."""


CALM = Trouble()


@asynccontextmanager
async def proxied(port: int, *, up: Trouble = CALM, down: Trouble = CALM) -> AsyncGenerator[int]:
    """The port of a proxy before the server at `port`; `up` is what a client sends, `down` what it hears."""
    links = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        links.add(task)
        # Whatever the trouble leaves of a connection is taken away when the proxy goes.
        with suppress(asyncio.CancelledError, ConnectionError):
            await _linked(reader, writer, port, up, down)
        links.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(links):
            task.cancel()
        await asyncio.gather(*links)


async def _linked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, up: Trouble, down: Trouble
) -> None:
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_carried(reader, far_writer, up, (writer, far_writer)))
            directions.create_task(_carried(far_reader, writer, down, (writer, far_writer)))
    finally:
        for end in (writer, far_writer):
            end.close()


async def _carried(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, trouble: Trouble, ends: tuple[asyncio.StreamWriter, ...]
) -> None:
    """One direction, to its end or to its trouble."""
    left = trouble.after
    with suppress(ConnectionError):
        while left is None or left > 0:
            piece = await source.read(trouble.piece if left is None else min(trouble.piece, left))
            if not piece:
                break
            await asyncio.sleep(trouble.delay)
            sink.write(piece)
            await sink.drain()
            left = None if left is None else left - len(piece)
        if left == 0:
            await _troubled(trouble, sink, ends)
        elif sink.can_write_eof():
            sink.write_eof()


async def _troubled(trouble: Trouble, sink: asyncio.StreamWriter, ends: tuple[asyncio.StreamWriter, ...]) -> None:
    match trouble.then:
        case "cut":
            for end in ends:
                end.close()
        case "reset":
            for end in ends:
                reset(end)
        case "half-close":
            sink.write_eof()
        case "stall":
            await asyncio.Event().wait()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a machine does that was switched off and on again."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
