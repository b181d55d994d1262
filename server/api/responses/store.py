"""Responses that later requests may name: so many, of so many bytes, in memory and gone with the server."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.api.responses.items import Item
from server.errors import PreviousResponseNotFound, UnknownResponse


@dataclass(frozen=True)
class Kept:
    """A response, and what it answered."""

    response: dict[str, Any]
    listed: tuple[dict[str, Any], ...]
    """The items of its own request."""
    items: tuple[Item, ...]
    """The whole conversation up to its end. Those of earlier responses are shared with them."""
    size: int
    """Bytes of all of that, as if nothing were shared."""


class Store:
    """The latest responses, the least recently used of which goes first. Safe from any thread."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """Keeps at most so many responses, of so many bytes together."""
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._running: dict[str, tuple[Kept, Callable[[], None]]] = {}
        self._items: dict[str, Item] = {}
        self._holders: Counter[str] = Counter()
        self._lock = threading.RLock()

    @property
    def keeps(self) -> bool:
        """Whether it keeps any at all."""
        return self._most > 0

    def began(self, kept: Kept, cancel: Callable[[], None]) -> None:
        """A response that can be read and cancelled from now on."""
        with self._lock:
            self._running[kept.response["id"]] = kept, cancel

    def left(self, id_: str) -> None:
        """A response that will not end: nobody listens to it any more. Nothing, if it has ended."""
        with self._lock:
            self._running.pop(id_, None)

    def ended(self, kept: Kept) -> None:
        """A response that can be gone on from, from now on; unless it was deleted meanwhile."""
        with self._lock:
            id_ = kept.response["id"]
            if self._running.pop(id_, None) is None or kept.size > self._most_bytes:
                return
            if id_ in self._kept:
                self._drop(id_)
            self._kept[id_] = kept
            named = {item.id: item for item in kept.items if item.id is not None}
            self._items |= named
            self._holders.update(named.keys())
            while len(self._kept) > self._most or self._bytes() > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def response(self, id_: str) -> Kept:
        """The response of this id, running or over.

        Raises:
            UnknownResponse: there is none, or none any more.
        """
        with self._lock:
            if id_ in self._running:
                return self._running[id_][0]
            if id_ not in self._kept:
                raise UnknownResponse(id_)
            self._kept.move_to_end(id_)
            return self._kept[id_]

    def previous(self, id_: str) -> Kept:
        """The response that a request goes on from.

        Raises:
            PreviousResponseNotFound: there is none that is over.
        """
        with self._lock:
            if id_ not in self._kept:
                raise PreviousResponseNotFound(id_)
            return self.response(id_)

    def item(self, id_: str) -> Item | None:
        """An item of any kept response, or of what it answered."""
        with self._lock:
            return self._items.get(id_)

    def delete(self, id_: str) -> None:
        """Keep it no more. One that runs is cancelled, too.

        Raises:
            UnknownResponse: there is none.
        """
        with self._lock:
            if id_ not in self._running and id_ not in self._kept:
                raise UnknownResponse(id_)
            _, cancel = self._running.pop(id_, (None, None))
            if id_ in self._kept:
                self._drop(id_)
        if cancel is not None:
            cancel()

    def cancel(self, id_: str) -> bool:
        """End it, if it runs; whether it did.

        Raises:
            UnknownResponse: there is none.
        """
        with self._lock:
            self.response(id_)
            _, cancel = self._running.get(id_, (None, None))
        if cancel is not None:
            cancel()
        return cancel is not None

    def _bytes(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def _drop(self, id_: str) -> None:
        dropped = self._kept.pop(id_)
        for name in {item.id for item in dropped.items if item.id is not None}:
            self._holders[name] -= 1
            if not self._holders[name]:
                del self._holders[name], self._items[name]
