"""Between the store and the disk: arrays to bytes and back, on the thread that owns the arrays."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from models.contract import Rows
from models.decode.archive import Label, Packed, Part, Stretch, names
from models.decode.disk import Disk
from models.decode.prefix import RUNG, Fetch, PrefixStore
from models.decode.trie import Ids, Node, State

_DTYPES = {str(dtype): dtype for dtype in (mx.float32, mx.bfloat16, mx.uint32, mx.uint8, mx.int32)}


class ShelvedStore(PrefixStore):
    """A store whose timelines are written to disk when a session ends, and found there by later processes."""

    def __init__(self, budget: int, disk: Disk, *, rung: int = RUNG) -> None:
        """A store of at most `budget` bytes of memory, over what lies on `disk`."""
        super().__init__(budget, rung=rung)
        self._disk = disk

    def spill(self, tokens: Sequence[int]) -> None:
        """Have the timeline of `tokens` written as far as it is held: all rows, but only the states that matter.

        Those are the first one (the system prompt's) and the last two (where the prompt ended, and the answer).
        """
        ids = np.asarray(tokens, np.int32)
        path = self.path(ids)
        marks = [node for node in path if node.state is not None]
        chosen = {id(node) for node in (*marks[:1], *marks[-2:])}
        named = names(ids.tobytes(), [0, *(node.stop for node in path)])
        timeline = [named[node.stop] for node in path]
        # Before what is written makes others go, and with what was written.
        self._disk.use(timeline)
        for node in path:
            state = node.state if id(node) in chosen else None
            drafts = state is not None and state.context is not None
            if not self._disk.knows(named[node.stop], resumes=state is not None, drafts=drafts):
                label = Label(named[node.stop], named[node.start], node.start, node.stop, state is not None, drafts)
                self._disk.put(Stretch(label, node.edge.tobytes(), _parts(node, state)))
        self._disk.use(timeline)

    def fetch(self, prompt: Sequence[int], *, drafting: bool) -> Fetch | None:
        """Begin to read from disk what resumes `prompt` better than what is held; None where there is nothing such."""
        ids = np.asarray(prompt, np.int32)
        beyond = self.find(prompt, drafting=drafting).offset
        chain = self._disk.chain(ids.tobytes(), beyond=beyond, drafting=drafting)
        return Reading(self, ids, self._disk.get(chain)) if chain else None

    def close(self, seconds: float | None = None) -> None:
        """Let the disk end what it has to write, for so many seconds at most."""
        self._disk.close(seconds)


@dataclass(frozen=True)
class Reading:
    """Stretches on their way from disk for the prompt `ids`."""

    store: PrefixStore
    ids: Ids
    stretches: "Future[list[Stretch]]"

    @property
    def arrived(self) -> bool:
        """Whether they can be taken without waiting."""
        return self.stretches.done()

    def take(self) -> None:
        """Put what was read into the store, as far as it is what the prompt begins with."""
        taken, reached = list[tuple[Ids, dict[int, Rows], State | None]](), 0
        for stretch in self.stretches.result():
            stop = stretch.label.stop
            if stretch.label.start != reached or stretch.tokens != self.ids[reached:stop].tobytes():
                return
            taken.append((self.ids[:stop], *_kept(stretch)))
            reached = stop
        self.store.adopt(taken)


def _parts(node: Node, state: State | None) -> tuple[Part, ...]:
    parts = [_part("whole", layer, rows) for layer, rows in node.whole.items()]
    if state is not None:
        parts += [_part("layer", layer, rows) for layer, rows in state.layers.items()]
        parts += [_part("context", layer, rows) for layer, rows in enumerate(state.context or ())]
    return tuple(parts)


def _part(kind: str, layer: int, rows: Rows) -> Part:
    return Part(kind, layer, rows.start, rows.stop, tuple(_packed(array) for array in rows.arrays))


def _packed(array: mx.array) -> Packed:
    return Packed(str(array.dtype), tuple(array.shape), np.asarray(array.view(mx.uint8)).tobytes())


def _unpacked(packed: Packed) -> mx.array:
    flat = np.frombuffer(packed.data, np.uint8).reshape(*packed.shape[:-1], -1)
    return mx.array(flat).view(_DTYPES[packed.dtype])


def _kept(stretch: Stretch) -> tuple[dict[int, Rows], State | None]:
    """Rows and state of a stretch, as a node holds them."""
    found: dict[str, dict[int, Rows]] = {"whole": {}, "layer": {}, "context": {}}
    for part in stretch.parts:
        arrays = tuple(_unpacked(array) for array in part.arrays)
        found[part.kind][part.layer] = Rows(part.start, part.stop, arrays, whole=part.kind == "whole")
    context = tuple(found["context"][layer] for layer in sorted(found["context"])) if stretch.label.drafts else None
    return found["whole"], State(found["layer"], context) if stretch.label.resumes else None
