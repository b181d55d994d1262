"""One HTTP/1.1 connection under uvicorn, with an end to everything that a client can leave hanging."""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from server.door.parting import Parting
from server.errors import HeadTooLarge, MalformedRequest, Refusal, SlowUpload, TooManyConnections, UnsupportedTransfer
from server.verdicts import envelope, headers, verdict

BEYOND = 32
"""Connections over the limit that still hear why they are refused; further ones are closed unheard."""


@dataclass(frozen=True)
class Patience:
    """How many connections there may be, and how long each may keep the server waiting, in seconds."""

    connections: int
    upload: float
    """For the head of a request, and for a body that nobody reads any more."""
    stall: float
    """For a client that does not read."""


class PatientProtocol(H11Protocol):
    """uvicorn's, with time limits, and with error objects for what never becomes a request."""

    patience: Patience

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._patient = True

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request; refuse it when it comes, if there are too many already."""
        self._parting = Parting(transport, self._sends, self._listen)
        super().connection_made(self._parting)
        over = len(self.connections) - self.patience.connections
        if over > BEYOND:
            transport.abort()
        elif over > 0:
            self.app = _full
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of every timer."""
        super().connection_lost(exc)
        for timer in (self._head, self._linger, self._stall):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Take what came; the head of a request must be whole in time from its first byte."""
        if self._parting.parting:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head = _cancelled(self._head)
        elif self._begun and self._head is None:
            self._await_head()
        if self.conn.their_state is not h11.SEND_BODY or self.conn.our_state is not h11.DONE:
            self._linger = _cancelled(self._linger)

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with bytes that are no request, where nothing was answered yet."""
        error = sys.exception()
        self._refuse(_unreadable(error if isinstance(error, h11.RemoteProtocolError) else h11.RemoteProtocolError(msg)))

    def on_response_complete(self) -> None:
        """A client that still sends what nobody reads is heard out for a while, so that it reads the answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()
        elif self.conn.their_state is h11.SEND_BODY and self._linger is None:
            self._linger = self.loop.call_later(self.patience.upload, self._cut)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; what its client has not read by then is not kept for ever."""
        super().timeout_keep_alive_handler()
        self._await_reader()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._stall = _cancelled(self._stall)

    def shutdown(self) -> None:
        """The server stops: nobody is heard out any more."""
        self._patient = False
        if self._parting.parting:
            self._parting.abort()
        else:
            super().shutdown()

    def _sends(self) -> bool:
        return self._patient and self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _listen(self) -> None:
        self._linger = self._linger or self.loop.call_later(self.patience.upload, self._parting.abort)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self.patience.upload, self._head_overdue)

    def _await_reader(self) -> None:
        self._stall = self._stall or self.loop.call_later(self.patience.stall, self._cut)

    @property
    def _begun(self) -> bool:
        return bool(self.conn.trailing_data[0])

    def _head_overdue(self) -> None:
        self._head = None
        if self._begun:
            self._refuse(SlowUpload(seconds=self.patience.upload))
        else:
            self.transport.close()

    def _cut(self) -> None:
        self.logger.warning("a client that kept its connection hanging was cut off")
        self.transport.abort()

    def _refuse(self, refusal: Refusal) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        status, head, body = _answer(refusal)
        for event in (h11.Response(status_code=status, headers=head), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def patient(patience: Patience) -> type[PatientProtocol]:
    """The protocol with these limits, as uvicorn wants it: a class."""
    return type("PatientProtocol", (PatientProtocol,), {"patience": patience})


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _unreadable(error: h11.RemoteProtocolError) -> Refusal:
    match error.error_status_hint:
        case 431:
            return HeadTooLarge("The headers are longer than the server reads.")
        case 501:
            return UnsupportedTransfer("Only the transfer encoding 'chunked' is read.")
    return MalformedRequest(f"This is not an HTTP/1.1 request: {error}.")


def _answer(refusal: Refusal) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an answer after which the connection closes."""
    body = json.dumps(envelope(refusal)).encode()
    told = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    head = [(name.encode(), value.encode()) for name, value in (told | headers(refusal)).items()]
    return verdict(refusal).status, head, body


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    """What answers a connection that is one too many."""
    status, head, body = _answer(TooManyConnections())
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
