"""Timelines that share their beginnings: a compressed trie over token ids, whose edges hold what layers remember."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from models.contract import Rows

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class State:
    """What resumes the layers that do not remember every position, at one place only."""

    layers: Mapping[int, Rows]
    """By the target's layer."""
    context: tuple[Rows, ...] | None
    """The speculator's; None where the timeline was decoded without one."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(rows.nbytes for rows in (*self.layers.values(), *(self.context or ())))


@dataclass(eq=False)
class Node:
    """The end of an edge. With a state it is a mark: a place where a session can go on."""

    edge: Ids
    """The tokens `start..stop`."""
    start: int
    whole: Mapping[int, Rows]
    """Rows `start..stop` of the layers that remember every position, by layer."""
    parent: "Node | None" = None
    state: State | None = None
    children: dict[int, "Node"] = field(default_factory=dict)
    """By the first token of their edges."""
    used: int = 0

    @property
    def stop(self) -> int:
        """How many tokens lead here."""
        return self.start + self.edge.size

    @property
    def nbytes(self) -> int:
        """Bytes held here, the tokens' included."""
        rows = sum(rows.nbytes for rows in self.whole.values())
        return self.edge.nbytes + rows + (0 if self.state is None else self.state.nbytes)

    @property
    def path(self) -> "list[Node]":
        """From the first edge to this one."""
        nodes: list[Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    @property
    def tokens(self) -> Ids:
        """All tokens that lead here."""
        return np.concatenate([np.zeros(0, np.int32), *(node.edge for node in self.path)])

    def adopt(self, child: "Node") -> None:
        """Make `child` go on from here."""
        child.parent = self
        self.children[int(child.edge[0])] = child

    def descendants(self) -> "Iterator[Node]":
        """Everything below, without this node."""
        waiting = list(self.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()


@dataclass(frozen=True)
class Walk:
    """How far a trie knows some tokens."""

    node: Node
    """The last node whose whole path agrees."""
    agreed: int
    """Tokens that agree."""
    inside: Node | None
    """The child of `node` in whose edge they part, or None where no edge goes on."""

    @property
    def goes_on(self) -> bool:
        """Whether anything is known to follow the agreed tokens."""
        return self.inside is not None or bool(self.node.children)


def walk(root: Node, tokens: Ids) -> Walk:
    """Follow `tokens` down from the root as far as they are known."""
    node, at = root, 0
    while at < tokens.size:
        child = node.children.get(int(tokens[at]))
        if child is None:
            break
        same = agreement(child.edge, tokens[at:])
        at += same
        if same < child.edge.size:
            return Walk(node, at, child)
        node = child
    return Walk(node, at, None)


def agreement(left: Ids, right: Ids) -> int:
    """How many tokens two sequences begin with in common."""
    shorter = min(left.size, right.size)
    different = np.flatnonzero(left[:shorter] != right[:shorter])
    return int(different[0]) if different.size else shorter


def split(node: Node, at: int) -> Node:
    """Cut a node's edge at the position `at`; returns the new upper half, which is no mark."""
    assert node.parent is not None
    parent = node.parent
    upper = Node(
        edge=node.edge[: at - node.start].copy(),
        start=node.start,
        whole={layer: rows.cut(node.start, at) for layer, rows in node.whole.items()},
        used=node.used,
    )
    lower = {layer: rows.cut(at, node.stop) for layer, rows in node.whole.items()}
    evaluate([*upper.whole.values(), *lower.values()])
    node.edge, node.start, node.whole = node.edge[at - node.start :].copy(), at, lower
    parent.adopt(upper)
    upper.adopt(node)
    return upper


def evaluate(rows: Sequence[Rows]) -> None:
    """Make copies real, so that nothing lazy keeps the buffers they come from."""
    mx.eval([array for part in rows for array in part.arrays])
