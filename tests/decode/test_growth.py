"""What long answers cost beside their arithmetic: caches are made for them, and no round copies one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import pytest

from models.cache import FullCache
from models.contract import LayerCache, Output, Row, Target
from models.decode.batch import Batch
from models.decode.launch import FORESEEN
from models.decode.session import Request, Sampling, Session, Speculation
from tests.decode.random_pair import Pair

ROOM = 1 << 16
pytestmark = pytest.mark.usefixtures("exact_buffers")


@dataclass
class Roomy:
    """A target whose caches have room for a long conversation, and which says what room it was asked for."""

    target: Target
    room: int = ROOM
    asked: list[int] = field(default_factory=list)

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        self.asked.append(room)
        return self.target.make_caches(slack, self.room or room)

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        return self.target(ids, rows, taps=taps, logit_rows=logit_rows)


def request(prompt: int, max_tokens: int, speculation: Speculation = "off") -> Request:
    ids = tuple(i * i % 97 for i in range(prompt))
    return Request(ids, Sampling(), max_tokens, frozenset(), speculation)


def full(session: Session) -> list[FullCache]:
    return [cache for cache in session.caches if isinstance(cache, FullCache)]


def peak_of(batch: Batch, rounds: int) -> int:
    """Bytes in use at most while so many rounds run, over those in use before."""
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    for _ in range(rounds):
        batch.step()
    mx.synchronize()
    return mx.get_peak_memory() - before


@pytest.mark.parametrize("speculation", ["off", "always"])
@pytest.mark.parametrize("sessions", [1, 3])
def test_no_round_copies_a_cache_though_the_next_is_enqueued_before_it_is_read(
    pair: Pair, speculation: Speculation, sessions: int
) -> None:
    batch = Batch(Roomy(pair.target), pair.speculator)
    running = [batch.add(request(20 + index, 600, speculation)) for index in range(sessions)]
    for _ in range(4):
        batch.step()
    buffers = [array.nbytes for session in running for cache in full(session) for array in cache.arrays]
    assert len(buffers) == sessions * 3 * 2
    assert set(buffers) == {ROOM * 2 * 16 * 4}
    assert peak_of(batch, 12) < buffers[0] / 4
    # A buffer that something else still reads is copied, and that shows.
    held = [array[:, :, :1] for cache in full(running[0]) for array in cache.arrays]
    mx.eval(held)
    assert peak_of(batch, 2) > buffers[0]


def test_no_round_copies_what_sessions_hold_that_live_side_by_side(pair: Pair) -> None:
    batch = Batch(Roomy(pair.target, room=1000), None)
    running = [batch.add(request(20 + index, 600)) for index in range(8)]
    for _ in range(12):
        batch.step()
    home = full(running[0])[0].held.home
    assert all(full(session)[0].held.home is home for session in running)
    assert home.keys.shape[:3] == (8, 2, 1024)
    size = home.keys.nbytes
    assert peak_of(batch, 12) < size / 4
    held = home.keys[:, :, :1]
    mx.eval(held)
    assert peak_of(batch, 2) > size


@pytest.mark.parametrize(("prompt", "max_tokens"), [(10, 50), (300, 700), (500, 4000)])
def test_caches_are_made_for_the_prompt_and_the_likely_answer(pair: Pair, prompt: int, max_tokens: int) -> None:
    target = Roomy(pair.target, room=0)
    batch = Batch(target, None)
    session = batch.add(request(prompt, max_tokens))
    batch.step()
    assert target.asked == [prompt + min(max_tokens, FORESEEN)]
    for cache in full(session):
        assert target.asked[0] <= cache.arrays[0].shape[2] < target.asked[0] + 256
    batch.cancel(session)


@pytest.mark.parametrize("speculation", ["off", "always"])
def test_an_answer_that_was_foreseen_never_moves_what_is_held(pair: Pair, speculation: Speculation) -> None:
    batch = Batch(pair.target, pair.speculator)
    session = batch.add(request(212, 300, speculation))
    batch.step()
    (capacity,) = {cache.arrays[0].shape[2] for cache in full(session)}
    assert capacity == 512, "the answer ends where the buffer does"
    rooms = set()
    while session.finish is None:
        rooms |= {cache.arrays[0].shape[2] for cache in full(session)}
        batch.step()
    assert rooms == {capacity}
    assert len(session.emitted) == 300


def test_a_restored_cache_has_the_same_room(pair: Pair) -> None:
    left, caches = pair.target.make_caches(0), pair.target.make_caches(0, 340)
    mx.eval(pair.target(mx.arange(90), [Row(0, 90, left)]).logits)
    for cache, kept in zip(caches, left, strict=True):
        cache.restore([kept.snapshot(0, kept.offset)])
    assert {cache.arrays[0].shape[2] for cache in caches if isinstance(cache, FullCache)} == {512}
