"""Where keys and values lie: in buffers of one session, or of several side by side, one slot each.

Sessions that decode a token a round move in with each other, so that one attention serves them all. Slots are filled
from the left, each up to an end of its own: nobody's rows move when somebody comes or leaves, but when slots are added
or given back. Who gets several rows at once, or outgrows a slot, moves out into buffers of his own.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from models.contract import Rows, copied
from models.slack import SPARE_PART


@dataclass(eq=False)
class Slots:
    """Keys and values [slots, heads, capacity, head_dim]."""

    keys: mx.array
    values: mx.array
    tenants: list["weakref.ref[Held] | None"] = field(default_factory=list)
    """Whose each slot is, if others may move in. A session that is over is gone from here by itself."""

    @classmethod
    def empty(cls, capacity: int, like: Sequence[mx.array]) -> "Slots":
        """One slot for keys and values like these [1, heads, any, head_dim]."""
        keys, values = (mx.zeros((*rows.shape[:2], capacity, rows.shape[3]), rows.dtype) for rows in like)
        return cls(keys, values)

    @property
    def capacity(self) -> int:
        """Rows of a slot."""
        return self.keys.shape[2]

    @property
    def count(self) -> int:
        """Slots."""
        return self.keys.shape[0]

    @property
    def holders(self) -> list["Held | None"]:
        """Whose each slot is by now."""
        return [None if tenant is None else tenant() for tenant in self.tenants]

    def open_to(self, held: "Held") -> None:
        """Let others move in beside the one who lives here."""
        self.tenants = [weakref.ref(held)]

    def take_in(self, coming: Sequence["Held"]) -> None:
        """Move the rows of sessions here, to free slots as far as there are some."""
        free = [place for place, holder in enumerate(self.holders) if holder is None]
        more = max(0, len(coming) - len(free))
        self.tenants += [None] * more
        places = [*free, *range(self.count, self.count + more)][: len(coming)]
        # All of a slot: whoever had it before may have left numbers in it that are none.
        own = [[_padded(rows, 0, self.capacity) for rows in held.rows(0, held.end)] for held in coming]
        self._fill(dict(zip(places, own, strict=True)), grows=more > 0)
        for held, place in zip(coming, places, strict=True):
            held.leave()
            self.tenants[place] = weakref.ref(held)
            held.slots, held.slot = self, place

    def _fill(self, own: Mapping[int, Sequence[mx.array]], *, grows: bool) -> None:
        """Put keys and values [1, heads, capacity, head_dim] in some slots; where there are more now, copy all once."""
        if not grows:
            for place, (keys, values) in own.items():
                self.keys[place : place + 1] = keys
                self.values[place : place + 1] = values
            return
        every = range(len(self.tenants))
        self.keys, self.values = (
            mx.concatenate([own[place][which] if place in own else old[place : place + 1] for place in every])
            for which, old in enumerate((self.keys, self.values))
        )

    def tidy(self) -> list[int]:
        """Give back the slots of those that are over, unless they are few; return where each slot's next row lies."""
        holders = self.holders
        live = [holder for holder in holders if holder is not None]
        if live and len(holders) - len(live) > len(live) // SPARE_PART:
            chosen = mx.array([holder.slot for holder in live])
            self._replace(lambda old: mx.take(old, chosen, axis=0))
            self.tenants = [weakref.ref(holder) for holder in live]
            for place, holder in enumerate(live):
                holder.slot = place
            return [holder.end for holder in live]
        return [0 if holder is None else holder.end for holder in holders]

    def widen(self, capacity: int) -> None:
        """Make room for so many rows in every slot."""
        self._replace(lambda old: _padded(old, 0, capacity))

    def compact(self, keep: int) -> None:
        """Keep the newest `keep` rows of every slot only, at its front.

        All at once: to write in one slot what another task still reads copies the others too.
        """
        holders = self.holders
        gone = [0 if holder is None else max(0, holder.end - keep) for holder in holders]
        cut = list(enumerate(gone))
        self._replace(lambda old: mx.concatenate([_padded(old[at : at + 1], start, old.shape[2]) for at, start in cut]))
        for holder, count in zip(holders, gone, strict=True):
            if holder is not None:
                holder.end -= count

    def _replace(self, made: Callable[[mx.array], mx.array]) -> None:
        self.keys, self.values = made(self.keys), made(self.values)


@dataclass(eq=False)
class Held:
    """One session's rows: those up to `end` of its slot."""

    slots: Slots | None = None
    slot: int = 0
    end: int = 0
    steady: int = 0
    """So many times in a row it got one token."""

    @property
    def capacity(self) -> int:
        """Rows that its slot has."""
        return 0 if self.slots is None else self.slots.capacity

    @property
    def home(self) -> Slots:
        """Where it lives, beside others or alone."""
        assert self.slots is not None
        return self.slots

    @property
    def room(self) -> int:
        """Rows that it can still write where it is; beside others one less, where what nobody wants is written."""
        return self.capacity - self.end - self.shared

    @property
    def shared(self) -> bool:
        """Whether others may live beside it."""
        return self.slots is not None and bool(self.slots.tenants)

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """The buffers that it lives in."""
        return () if self.slots is None else (self.slots.keys, self.slots.values)

    def rows(self, start: int, stop: int) -> tuple[mx.array, mx.array]:
        """Keys and values [1, heads, stop - start, head_dim] as views."""
        keys, values = self.home.keys, self.home.values
        if (start, stop, keys.shape[0]) == (0, keys.shape[2], 1):
            return keys, values
        place = slice(self.slot, self.slot + 1)
        return keys[place, :, start:stop], values[place, :, start:stop]

    def last(self, count: int) -> tuple[mx.array, mx.array]:
        """The newest `count` rows, as views."""
        return self.rows(self.end - count, self.end)

    def write(self, start: int, rows: tuple[mx.array, mx.array]) -> None:
        """Write rows [1, heads, L, head_dim] that are known to fit; where they end, it ends."""
        place, self.end = slice(self.slot, self.slot + 1), start + rows[0].shape[2]
        self.home.keys[place, :, start : self.end] = rows[0]
        self.home.values[place, :, start : self.end] = rows[1]

    def append(self, keys: mx.array, values: mx.array) -> None:
        """Write rows that are known to fit behind the others."""
        if self.shared:
            self.home.tidy()
        self.steady = self.steady + 1 if keys.shape[2] == 1 else 0
        self.write(self.end, (keys, values))

    def leave(self) -> None:
        """Let go of a slot beside others, for whoever comes next."""
        if self.slots is not None and self.slots.tenants:
            self.slots.tenants[self.slot] = None

    def move(self, keep: int, capacity: int, like: Sequence[mx.array]) -> None:
        """Keep the newest `keep` rows only, in buffers of its own with `capacity` rows."""
        kept = self.last(keep) if keep else None
        self.leave()
        self.slots, self.slot, self.end = Slots.empty(capacity, like), 0, 0
        if kept is not None:
            self.write(0, kept)

    def copy(self, start: int, stop: int) -> tuple[mx.array, ...]:
        """The rows `start..stop` in buffers of their own."""
        return tuple(copied(rows, 0, stop - start) for rows in self.rows(start, stop)) if start < stop else ()

    def fill(self, parts: Sequence[Rows], capacity: int) -> None:
        """Write all rows of `parts` into fresh buffers of `capacity` rows."""
        filled = [part for part in parts if part.arrays]
        for part in filled:
            keys, values = part.arrays
            if self.slots is None:
                self.slots = Slots.empty(capacity, (keys, values))
            self.append(keys, values)


def _padded(rows: mx.array, start: int, capacity: int) -> mx.array:
    """The rows from `start` on at the front of so many, zeros behind them."""
    own = rows[:, :, start:] if start else rows
    return mx.pad(own, [(0, 0), (0, 0), (0, capacity - own.shape[2]), (0, 0)]) if own.shape[2] < capacity else own
