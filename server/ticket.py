"""One request's place on both sides of the engine's thread, and the line it waits in."""

import threading
from collections import deque
from collections.abc import Callable

from models.decode.session import Request
from server.errors import Refusal
from server.mail import Mail, Progress


class Ticket:
    """A request on its way through. The loop's side sends its mail; the thread's side reads `cancelled`."""

    def __init__(self, request: Request, mail: Mail, place: int = 0) -> None:
        self.request = request
        self.cancelled = False
        self._mail = mail
        self._place = place

    def deliver(self, news: Progress | Refusal) -> None:
        """Called on the event loop only."""
        self._mail.put(self._place, news)


class Line:
    """Tickets that wait for a place in the batch, first come first served; safe from both sides."""

    def __init__(self) -> None:
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        """Whether the thread should end."""
        return self._closed

    def join(self, ticket: Ticket) -> None:
        """Wait at the end."""
        with self._changed:
            self._waiting.append(ticket)
            self._changed.notify()

    def leave(self, ticket: Ticket) -> None:
        """Stop waiting; a ticket that was taken already is not there any more."""
        with self._changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def take(self, fits: Callable[[Ticket], bool]) -> Ticket | None:
        """The first one, or None where there is none or it does not fit yet: nobody overtakes it."""
        with self._changed:
            return self._waiting.popleft() if self._waiting and fits(self._waiting[0]) else None

    def wait(self) -> None:
        """Sleep until somebody waits or the line is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)

    def close(self) -> None:
        """Tell the thread to end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
