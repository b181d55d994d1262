"""Earlier timelines worth resuming: exact snapshots at marks, longest prefix first, least recently used out."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.contract import LayerCache, Rows
from models.decode.trie import Ids, Node, State, Walk, evaluate, split, walk

logger = logging.getLogger(__name__)

RUNG = 8192
"""Prompt tokens between marks where nothing else makes one."""
NEAR_MISS = 64
"""A prompt that parts from a known one so many tokens after the place it resumes at leaves a mark there."""


class PrefixStoreError(AssertionError):
    """The store's books do not add up."""


@dataclass(frozen=True)
class Found:
    """What the store knows of a prompt."""

    mark: Node | None
    """Where to resume, or None."""
    agreed: int
    """Tokens that agree with a known timeline, resumable or not."""
    parted: bool
    """Something else followed there."""

    @property
    def offset(self) -> int:
        """Tokens that need not be read again."""
        return 0 if self.mark is None else self.mark.stop

    @property
    def anchor(self) -> int | None:
        """The divergence, where it is worth a mark for the next prompt that parts there."""
        near = self.parted and self.agreed - self.offset >= NEAR_MISS
        return self.agreed if near else None


class Fetch(Protocol):
    """Stretches on their way from disk."""

    @property
    def arrived(self) -> bool:
        """Whether they can be taken without waiting."""
        ...

    def take(self) -> None:
        """Put them into the store."""
        ...


class PrefixStore:
    """Snapshots within a budget of bytes. Not thread safe: it belongs to the thread that owns the arrays.

    Layers that remember every position keep their rows once for each stretch of tokens, however many timelines share
    it; the others, and the speculator's context, keep the little that resumes them at each mark.
    """

    def __init__(self, budget: int, *, rung: int = RUNG) -> None:
        """An empty store of at most `budget` bytes, which wants a mark every `rung` prompt tokens at least."""
        self.budget, self.rung = budget, rung
        self._root = self._fresh_root()
        self._bytes, self._clock = 0, 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes

    @property
    def marks(self) -> int:
        """Places where a session could resume."""
        return sum(node.state is not None for node in self._root.descendants())

    def find(self, prompt: Sequence[int] | Ids, *, drafting: bool) -> Found:
        """The longest mark that `prompt` begins with and goes beyond; one with a context where drafts are wanted."""
        tokens = np.asarray(prompt, np.int32)
        known = walk(self._root, tokens)
        mark: Node | None = known.node
        while mark is not None and not _resumes(mark, len(tokens), drafting):
            mark = mark.parent
        return Found(mark, known.agreed, parted=known.agreed < len(tokens) and known.goes_on)

    def places(self, wanted: Sequence[int], found: Found, length: int) -> tuple[int, ...]:
        """Where a prompt of `length` tokens should leave marks while it is read: as `wanted`, and the store's own."""
        rungs = range(found.offset // self.rung * self.rung + self.rung, length, self.rung)
        own = [] if found.anchor is None else [found.anchor]
        # Nobody said where the prompt may part from others, but it may well come again as it is.
        own += [length - 1] if not wanted and length - found.offset > NEAR_MISS else []
        return tuple(sorted({place for place in (*wanted, *own, *rungs) if found.offset < place < length}))

    def restore(self, mark: Node, caches: Sequence[LayerCache], context: Sequence[LayerCache]) -> None:
        """Make empty caches stand where `mark` stands, in buffers of their own.

        Raises:
            CacheError: they are not empty, or not of the network that the mark came from.
        """
        assert mark.state is not None
        path = mark.path
        for layer, cache in enumerate(caches):
            own = mark.state.layers.get(layer)
            cache.restore([node.whole[layer] for node in path] if own is None else [own])
        for cache, rows in zip(context, mark.state.context or (), strict=bool(context)):
            cache.restore([rows])
        # The first mark is the system prompt's, which the next conversation will want.
        for node in (mark, next(node for node in path if node.state is not None)):
            self._touch(node)

    def keep(self, tokens: Sequence[int], caches: Sequence[LayerCache], context: Sequence[LayerCache]) -> None:
        """Leave a mark after `tokens`, where `caches` stand or stood before, and the context too if it is not empty.

        Raises:
            CacheError: a cache holds less than its snapshot needs.
            PrefixStoreError: there are no tokens.
        """
        ids = np.asarray(tokens, np.int32)
        if not ids.size:
            raise PrefixStoreError("a mark needs a token before it")
        known = walk(self._root, ids)
        if not _adds(known, ids.size, bool(context)):
            self._touch(known.node)
            return
        parts = dict(enumerate(cache.snapshot(known.agreed, ids.size) for cache in caches))
        whole = {layer: rows for layer, rows in parts.items() if rows.whole}
        held = tuple(cache.snapshot(0, ids.size) for cache in context) if context else None
        state = State({layer: rows for layer, rows in parts.items() if not rows.whole}, held)
        shared = sum(rows.nbytes for node in known.node.path for rows in node.whole.values()) + ids.nbytes
        if shared + state.nbytes + sum(rows.nbytes for rows in whole.values()) > self.budget:
            logger.info("a prompt of %d tokens is not kept: it is larger than the whole prefix cache", ids.size)
            return
        evaluate([*whole.values(), *state.layers.values(), *(held or ())])
        self._mark(self._node(known, ids, whole), state)
        self._shrink()

    def fetch(self, prompt: Sequence[int], *, drafting: bool) -> Fetch | None:
        """Begin to read from disk what resumes `prompt` better than what is held; None where there is nothing such."""
        return None

    def spill(self, tokens: Sequence[int]) -> None:
        """Have what is held of a timeline written to disk, where there is one."""

    def close(self, seconds: float | None = None) -> None:
        """Let what is still to be written be written, for so many seconds at most."""

    def path(self, ids: Ids) -> list[Node]:
        """All that is held of the timeline `ids`, from its beginning on."""
        return walk(self._root, ids).node.path

    def adopt(self, stretches: Sequence[tuple[Ids, Mapping[int, Rows], State | None]]) -> None:
        """Hold stretches that lie end to end from a timeline's beginning on, each by all tokens up to its end.

        What would not fit if all else went is left out.
        """
        for ids, whole, state in stretches[: _fitting(stretches, self.budget)]:
            known = walk(self._root, ids)
            missing = {layer: rows.cut(known.agreed, ids.size) for layer, rows in whole.items()}
            evaluate(list(missing.values()))
            node = self._node(known, ids, missing)
            if state is not None and _adds(walk(self._root, ids), ids.size, state.context is not None):
                evaluate([*state.layers.values(), *(state.context or ())])
                self._mark(node, state)
        self._shrink()

    def limit(self, budget: int) -> None:
        """Hold at most `budget` bytes from now on."""
        self.budget = budget
        self._shrink()

    def clear(self) -> None:
        """Forget everything, at once: nodes know each other both ways, and would wait for the collector."""
        for node in list(self._root.descendants()):
            node.parent, node.children = None, {}
        self._root = self._fresh_root()
        self._bytes = 0

    def tidy(self) -> None:
        """Look after the books while there is time: what does not add up is thrown away rather than resumed from."""
        try:
            self.check()
        except Exception as error:
            # Going through books that are wrong enough may raise anything.
            logger.error("the prefix cache is emptied, since its books do not add up", exc_info=error)
            self.clear()

    def check(self) -> None:
        """Go through all books.

        Raises:
            PrefixStoreError: bytes, offsets or links do not add up.
        """
        nodes = list(self._root.descendants())
        faults = [fault for node in nodes for fault in _faults(node)]
        held = sum(node.nbytes for node in nodes)
        if held != self._bytes:
            faults.append(f"{held} bytes are held and {self._bytes} counted")
        if self._bytes > self.budget:
            faults.append(f"{self._bytes} bytes are held within a budget of {self.budget}")
        if faults:
            raise PrefixStoreError("; ".join(faults))

    def _node(self, known: Walk, ids: Ids, whole: Mapping[int, Rows]) -> Node:
        """The node after `ids`; where there is none, an edge is cut, and one with the rows `whole` is added."""
        node = known.node
        if known.inside is not None:
            self._bytes -= known.inside.nbytes
            node = split(known.inside, known.agreed)
            self._bytes += node.nbytes + known.inside.nbytes
        if node.stop < ids.size:
            leaf = Node(ids[node.stop :].copy(), node.stop, whole)
            node.adopt(leaf)
            self._bytes += leaf.nbytes
            node = leaf
        return node

    def _mark(self, node: Node, state: State | None) -> None:
        self._bytes -= node.nbytes
        node.state = state
        self._bytes += node.nbytes
        self._touch(node)

    def _touch(self, node: Node) -> None:
        self._clock += 1
        node.used = self._clock

    def _shrink(self) -> None:
        """Drop what was used longest ago until the budget holds: a leaf goes whole, elsewhere only the state does."""
        while self._bytes > self.budget:
            idle = (node for node in self._root.descendants() if node.state is not None)
            self._drop(min(idle, key=lambda node: node.used))

    def _drop(self, node: Node) -> None:
        self._mark(node, None)
        while node.parent is not None and node.state is None and not node.children:
            self._bytes -= node.nbytes
            del node.parent.children[int(node.edge[0])]
            node = node.parent

    @staticmethod
    def _fresh_root() -> Node:
        return Node(np.zeros(0, np.int32), 0, {})


def _fitting(stretches: Sequence[tuple[Ids, Mapping[int, Rows], State | None]], budget: int) -> int:
    """How many stretches lead to the last place where a session can go on and whose rows and state fit."""
    rows, fitting = 0, 0
    for count, (ids, whole, state) in enumerate(stretches, start=1):
        rows += sum(part.nbytes for part in whole.values())
        if state is not None and rows + ids.nbytes + state.nbytes <= budget:
            fitting = count
    return fitting


def _adds(known: Walk, length: int, drafting: bool) -> bool:
    """Whether a mark after `length` tokens would tell anything new."""
    state = known.node.state
    return known.node.stop < length or state is None or (drafting and state.context is None)


def _resumes(mark: Node, length: int, drafting: bool) -> bool:
    """Whether a prompt of `length` tokens can go on from here: at least one of them must be read again."""
    return mark.state is not None and mark.stop < length and (not drafting or mark.state.context is not None)


def _faults(node: Node) -> list[str]:
    """What is wrong with one node."""
    where = f"the node at {node.start}..{node.stop}"
    states: list[Rows] = [] if node.state is None else [*node.state.layers.values(), *(node.state.context or ())]
    wrong = {
        "has an empty edge": not node.edge.size,
        "hangs on nobody": node.parent is None or node.parent.children.get(int(node.edge[0])) is not node,
        "does not begin where its parent ends": node.parent is not None and node.parent.stop != node.start,
        "is a leaf that resumes nobody": not node.children and node.state is None,
        "holds rows of other positions": any(r.start != node.start or r.stop != node.stop for r in node.whole.values()),
        "holds the state of another place": any(rows.stop != node.stop for rows in states),
        "holds a buffer of another length": any(
            array.shape[-2] != rows.stop - rows.start
            for rows in (*node.whole.values(), *states)
            for array in rows.arrays
        ),
    }
    return [f"{where} {fault}" for fault, found in wrong.items() if found]
