"""One token of each of several sessions at once: whose slots they go to, and which rows each of them sees."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from models.cache import FullCache, WindowCache
from models.slots import Slots

Shared = FullCache | WindowCache
"""Caches that can live beside others of their kind."""


@dataclass(frozen=True)
class Visit:
    """Where the tokens of one pass go in the slots of one layer, and what they see there."""

    given: mx.array | None
    """[slots] which of the N tokens each slot is given, any where it has none; None: one each, in order."""
    slots: mx.array | None
    """[N] the slot of each token; None: as above."""
    places: mx.array
    """int32 [slots, kv_heads, 1, head_dim]: the row of its slot that each token goes to."""
    first: int
    """The rows `first..stop` are those that anybody sees."""
    stop: int
    seen: mx.array
    """bool [slots, 1, 1, stop - first]."""
    present: mx.array | None
    """bool [slots, 1, 1, 1]: which slots have a token in this pass; None: all."""

    def to_slots(self, tokens: mx.array) -> mx.array:
        """[N, heads, 1, head_dim] to [slots, heads, 1, head_dim], zeros where a slot has none."""
        if self.given is None:
            return tokens
        return tokens[self.given] if self.present is None else mx.where(self.present, tokens[self.given], 0)

    def from_slots(self, results: mx.array) -> mx.array:
        """[slots, ...] to [N, ...]."""
        return results if self.slots is None else results[self.slots]


Visits = Callable[[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, int]], Visit]


def visits() -> Visits:
    """What makes visits, once for all layers of a pass whose slots are alike."""

    @cache
    def visit(slots: tuple[int, ...], firsts: tuple[int, ...], ends: tuple[int, ...], shape: tuple[int, int]) -> Visit:
        """Tokens that go to `slots` and see rows from `firsts` on.

        `ends` are where all slots' next rows lie, and `shape` are heads and width of a row.
        """
        every = len(ends)
        first, stop = min(firsts), max(ends[slot] for slot in slots) + 1
        rows, places = mx.arange(first, stop), mx.array(ends, dtype=mx.int32).reshape(-1, 1, 1, 1)
        if slots == tuple(range(every)):
            given, taken, present, begins = None, None, None, firsts
        else:
            token_of = {slot: token for token, slot in enumerate(slots)}
            order = [token_of.get(slot, 0) for slot in range(every)]
            given, taken, begins = mx.array(order), mx.array(slots), [firsts[token] for token in order]
            away = [[[[slot in token_of]]] for slot in range(every)]
            present = mx.array(away) if len(slots) < every else None
        seen = (rows >= mx.array(begins).reshape(-1, 1, 1, 1)) & (rows <= places)
        heads, width = shape
        return Visit(given, taken, mx.broadcast_to(places, (every, heads, 1, width)), first, stop, seen, present)

    return visit


def joinable(singles: Sequence[int], caches: Sequence[object]) -> dict[int, Shared]:
    """Of rows with one token each those, by their place, that can take it together: two at least, or none."""
    found = {place: each for place in singles if isinstance(each := caches[place], Shared) and each.ready()}
    return found if len(found) > 1 else {}


def exchange(
    caches: Sequence[Shared], keys: mx.array, values: mx.array, made: Visits
) -> tuple[mx.array, mx.array, Visit]:
    """Append one token to each cache, keys and values [N, kv_heads, 1, head_dim], and say what is seen.

    Returns keys and values [slots, kv_heads, rows, head_dim] of all slots, and who sees what of them.
    """
    needed = max([each.prepare() for each in caches])
    home = _home(caches)
    if needed > home.capacity:
        home.widen(max(each.slot_rows for each in caches))
    ends = tuple(home.tidy())
    slots, firsts = tuple([each.held.slot for each in caches]), tuple([each.advance() for each in caches])
    visit = made(slots, firsts, ends, (keys.shape[1], keys.shape[3]))
    home.keys = mx.put_along_axis(home.keys, visit.places, visit.to_slots(keys), axis=2)
    home.values = mx.put_along_axis(home.values, visit.places, visit.to_slots(values), axis=2)
    return home.keys[:, :, visit.first : visit.stop], home.values[:, :, visit.first : visit.stop], visit


def tidied(caches: Iterable[object]) -> None:
    """Give back what those left who moved out in this pass."""
    homes = {id(each.held.home): each.held.home for each in caches if isinstance(each, Shared) and each.held.shared}
    for home in homes.values():
        home.tidy()


def _home(caches: Sequence[Shared]) -> Slots:
    """Where all of them live from now on."""
    home = caches[0].held.home
    if home.tenants and all(each.held.slots is home for each in caches):
        return home
    shared = [each.held.home for each in caches if each.held.shared]
    home = max(shared, key=lambda slots: slots.count, default=home)
    if not home.tenants:
        home.open_to(caches[0].held)
    rows = max(each.slot_rows for each in caches)
    if rows > home.capacity:
        home.widen(rows)
    home.tidy()
    home.take_in([each.held for each in caches if each.held.slots is not home])
    return home
