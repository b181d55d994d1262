"""A connection's end that a client which still sends can hear."""

import asyncio
from collections.abc import Callable


class Parting(asyncio.Transport):
    """A transport of which `close` ends our side first while the client still sends.

    The kernel resets a connection that is closed with something unread, and a client whose request is refused at its
    first bytes would lose the answer with it (RFC 9112, 9.6). Whoever reads from it drops what still comes, and ends
    the connection in time.
    """

    def __init__(self, inner: asyncio.Transport, sends: Callable[[], bool], linger: Callable[[], None]) -> None:
        """`sends` says whether more is to come from the client; `linger` is called once, if `close` has to wait."""
        super().__init__()
        self._inner = inner
        self._sends = sends
        self._linger = linger
        self.parting = False
        """Our side has ended; the client's has not."""

    def close(self) -> None:
        """End our side, and the client's too unless it still sends."""
        if self._inner.is_closing() or self.parting:
            return
        if not self._sends():
            self._inner.close()
            return
        self.parting = True
        self._inner.resume_reading()
        self._inner.write_eof()
        self._linger()

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self.parting or self._inner.is_closing()

    def abort(self) -> None:
        """End both sides now."""
        self._inner.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, until `close`."""
        if not self.parting:
            self._inner.write(data)

    def pause_reading(self) -> None:
        """Let the client wait, until `close`."""
        if not self.parting:
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading."""
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """As the transport itself."""
        return self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """As the transport itself."""
        self._inner.set_protocol(protocol)
