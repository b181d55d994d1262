"""The laws again, with the real networks on a small random checkpoint whose window the text crosses many times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import mlx.core as mx
import pytest

from models.checkpoint import load_speculator, load_target
from models.contract import Row, Speculator, Target
from models.decode.batch import Batch
from models.decode.session import Request, Sampling, Session, Speculation
from tests.decode.forwarding import Forwarding
from tests.decode.random_pair import active_memory
from tests.decode.scripted import run_all, text
from tests.models.tiny_checkpoint import SPECULATOR, write_pair

Plainly = Callable[[Request], list[int]]

PROMPT = tuple(i * i % 97 for i in range(45))
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.7, seed=-3),
    Sampling(temperature=1.2, seed=77),
    Sampling(temperature=1.2, top_k=30, top_p=0.9, min_p=0.02, seed=5),
]


@dataclass(frozen=True)
class Pair:
    target: Target
    speculators: dict[int, Speculator]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    target_path, _ = write_pair(folder / "8")
    target = load_target(target_path)
    speculators: dict[int, Speculator] = {}
    for block in (2, 3, 5, 8, 16):
        drafts = SPECULATOR["dflash_config"] | {"block_size": block}
        _, path = write_pair(folder / str(block), speculator={"dflash_config": drafts})
        speculators[block] = load_speculator(path, target)
    return Pair(target, speculators)


def request(sampling: Sampling, speculation: Speculation = "always", prompt: Sequence[int] = PROMPT) -> Request:
    return Request(tuple(prompt), sampling, 48, frozenset({2, 24}), speculation)


def write(batch: Batch, *requests: Request) -> list[list[int]]:
    sessions = [batch.add(one) for one in requests]
    got = run_all(batch)
    return [text(got[session]) for session in sessions]


@pytest.fixture(scope="module")
def plainly(pair: Pair) -> Plainly:
    """What a request is answered alone and without drafts, decoded once for all tests."""
    return cache(lambda one: write(Batch(pair.target, None), one)[0])


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_same_seed_same_text_at_every_width(pair: Pair, plainly: Plainly, sampling: Sampling) -> None:
    for speculator in pair.speculators.values():
        assert write(Batch(pair.target, speculator), request(sampling)) == [plainly(request(sampling))]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("chunk", [1, 7, 16, 17, 44])
def test_same_seed_same_text_for_every_chunk(pair: Pair, plainly: Plainly, sampling: Sampling, chunk: int) -> None:
    batch = Batch(pair.target, pair.speculators[8], prefill_chunk=chunk)
    assert write(batch, request(sampling)) == [plainly(request(sampling))]


@pytest.mark.parametrize("speculation", ["always", "auto", "off"])
def test_same_seed_same_text_beside_three_others_that_come_and_go(
    pair: Pair, plainly: Plainly, speculation: Speculation
) -> None:
    requests = [request(s, speculation, PROMPT[: 9 + 12 * i]) for i, s in enumerate(SAMPLINGS)]
    batch = Batch(pair.target, pair.speculators[8], prefill_chunk=20)
    got: dict[Session, list[int]] = {}
    for one in requests:
        got[batch.add(one)] = []
        for _ in range(4):
            for update in batch.step():
                got[update.session] += update.ids
    for session, updates in run_all(batch).items():
        got[session] += text(updates)
    assert list(got.values()) == [plainly(replace(one, speculation="off")) for one in requests]


def test_sessions_that_are_over_leave_no_memory_behind(pair: Pair) -> None:
    batch = Batch(pair.target, pair.speculators[8], prefill_chunk=20)
    write(batch, request(SAMPLINGS[0]))
    before = active_memory()
    for speculation in ("off", "always"):
        left = batch.add(request(SAMPLINGS[1], speculation))
        for _ in range(4):
            batch.step()
        assert active_memory() > before
        batch.cancel(left)
        write(batch, *[request(sampling, speculation) for sampling in SAMPLINGS])
        assert active_memory() == before


@dataclass(frozen=True)
class Prophet(Forwarding):
    """A real speculator's context under drafts that are right as often as `flaw` wants: it knows the text."""

    known: Sequence[int]
    """Up to the end, and any ids for the block that goes beyond it."""
    flaw: int

    def draft_block(self, anchors: mx.array, rows: Sequence[Row]) -> mx.array:
        real = super().draft_block(anchors, rows)
        (row,) = rows
        first = row.caches[0].offset + 1
        places = range(first, first + real.shape[0])
        said = [(self.known[at] + (at % self.flaw == 0)) % real.shape[1] for at in places]
        # The real logits stay in the graph, so that a broken context or block would show.
        return mx.where(mx.arange(real.shape[1])[None] == mx.array(said)[:, None], 1e6, 0 * real)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("flaw", [2, 3, 7, 11, 1000])
def test_rolling_back_any_part_of_a_block_leaves_the_text_as_it_is(
    pair: Pair, plainly: Plainly, sampling: Sampling, flaw: int
) -> None:
    wanted = plainly(request(sampling))
    prophet = Prophet(pair.speculators[8], [*PROMPT, *wanted, *[0] * 64], flaw)
    batch = Batch(pair.target, prophet)
    session = batch.add(request(sampling))
    assert text(run_all(batch)[session]) == wanted
    if flaw == 1000 and session.finish == "length":
        assert session.stats.rounds == -(-47 // 8)
        assert session.stats.accepted == 47 - session.stats.rounds


def test_a_context_that_waited_drafts_as_one_that_kept_up(pair: Pair) -> None:
    """Parked sessions take rows up late and in bulk; the drafts must be those of a session that never parked."""
    sampling = Sampling(temperature=1.2, seed=7)
    runs = []
    for chunk in (45, 1):
        batch = Batch(pair.target, pair.speculators[8], prefill_chunk=chunk)
        session = batch.add(Request(PROMPT, sampling, 60, frozenset(), "always"))
        run_all(batch)
        runs.append(session.stats.accepted_by_depth)
    assert runs[0] == runs[1]
    assert sum(runs[0]) > 0
