"""What rounds bring on its way from the engine's thread to the loop, which it would otherwise wake in every round."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from server.errors import Refusal
from server.mail import Progress
from server.ticket import Ticket

News = tuple[Ticket, Progress | Refusal]

SHORTEST, LONGEST, EACH = 0.03, 0.06, 0.0075
"""Seconds between two looks: the least, the most, and for each ticket that heard something at the last one.

Nobody reads faster, and a small target would spend its time on sending.
"""


class Outbox:
    """News between two threads. What is urgent wakes the loop; the rest waits until it looks of its own accord.

    While there are news it looks again and again; once it finds none, the next ones wake it.
    """

    def __init__(self, deliver: Callable[[Sequence[News]], None]) -> None:
        """`deliver` is called on the loop, with everything that has come since the last time."""
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._waiting = deque[News]()
        self._timer: asyncio.TimerHandle | None = None
        self._expected = False
        """A look is on its way."""

    def post(self, news: Sequence[News]) -> None:
        """Called on the engine's thread only: what one round brought."""
        self._waiting.extend(news)
        if not self._expected or any(map(_urgent, news)):
            # Said first: the look that is asked for here may run before the next line of this thread does.
            self._expected = True
            self._loop.call_soon_threadsafe(self.look)

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Called on the engine's thread only: have something done on the loop, soon."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def look(self) -> None:
        """Called on the loop only: hand on what is there."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        news = self._taken()
        if not news:
            self._expected = False
            # What came before this line was not to wake anybody.
            news = self._taken()
        if news:
            self._expected = True
            tickets = len({id(ticket) for ticket, _ in news})
            self._timer = self._loop.call_later(min(max(SHORTEST, tickets * EACH), LONGEST), self.look)
            self._deliver(news)

    def _taken(self) -> list[News]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]


def _urgent(news: News) -> bool:
    """Whether it is the first or the last that its ticket hears."""
    _, item = news
    return isinstance(item, Refusal) or item.finish is not None or not item.stats.rounds
