"""Answers that outgrow memory: the youngest wait without caches, and nobody loses a word."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pytest

from models.decode.batch import Batch
from models.decode.logprobs import Scored
from models.decode.prefix import PrefixStore
from models.decode.request import Request, Sampling
from models.decode.session import Session
from models.runtime import Runtime, load_runtime
from server.admission import Room
from server.backend import Pair
from server.errors import GenerationFailed, Refusal
from server.mail import Mail, Progress
from server.outbox import News
from server.pulse import Pulse
from server.rounds import Rounds
from server.ticket import Line, Ticket
from tests.decode.scripted import ScriptedSpeculator, ScriptedTarget, blurred, plainly, run_all, text
from tests.decode.scripted import asked as scripted
from tests.server.script import EOS, ScriptBatch, ScriptPair, ids_of, says


@dataclass
class Desk:
    """Rounds on the test's own thread, until every ticket is over; `after` is called after each that brought news."""

    pair: Pair
    room: Room
    prefix: PrefixStore | None = None
    after: Callable[["Desk"], None] = lambda desk: None
    news: list[tuple[Ticket, Progress | Refusal]] = field(default_factory=list)

    def serve(self, *requests: Request) -> list[Ticket]:
        self.tickets = asyncio.run(_tickets(requests))
        self.line = Line()
        for ticket in self.tickets:
            self.line.join(ticket)
        self.pulse = Pulse()
        where = self.pair, self.line, self.pulse, self._post
        Rounds(*where, places=4, chunk=64, room=self.room, prefix=self.prefix).run()
        return self.tickets

    def text(self, ticket: Ticket) -> list[int]:
        return [id_ for owner, item in self.news if owner is ticket and isinstance(item, Progress) for id_ in item.ids]

    def scores(self, ticket: Ticket) -> list[Scored]:
        return [
            each for owner, item in self.news if owner is ticket and isinstance(item, Progress) for each in item.scores
        ]

    def ends(self) -> dict[Ticket, int]:
        """Where in the news each is over."""
        return {
            ticket: place
            for place, (ticket, item) in enumerate(self.news)
            if isinstance(item, Refusal) or item.finish is not None
        }

    def begins(self, ticket: Ticket) -> int:
        return next(place for place, (owner, _) in enumerate(self.news) if owner is ticket)

    def _post(self, news: Sequence[News]) -> None:
        self.news += news
        self.after(self)
        if all(ticket.cancelled or ticket in self.ends() for ticket in self.tickets):
            self.line.close()


async def _tickets(requests: Sequence[Request]) -> list[Ticket]:
    """What comes for them waits for a loop."""
    return [Ticket(request, Mail()) for request in requests]


LONG = "abcdefghij" * 30


def asked(max_tokens: int) -> Request:
    return Request(ids_of("hi"), Sampling(), max_tokens, frozenset({EOS}))


def desk(pair: ScriptPair, after: Callable[[Desk], None] = lambda desk: None) -> Desk:
    """Memory for 410 tokens, reckoned by 190 of an answer: two begin together, and one goes on."""
    return Desk(pair, Room(410, lambda tokens: tokens, step=190), after=after)


def test_two_that_outgrow_memory_end_one_after_the_other_and_nobody_new_comes_between() -> None:
    pair, parked = ScriptPair(says(LONG, block=10)), list[int]()
    served = desk(pair, lambda desk: parked.append(desk.pulse.parked))
    first, second, third = served.serve(asked(350), asked(350), asked(30))
    assert [served.text(ticket) for ticket in (first, second)] == [list(ids_of(LONG))] * 2
    assert served.text(third) == list(ids_of(LONG))[:30]
    assert (pair.parked, pair.sessions) == (1, 0)
    # It did not fit beside the two, would have fitted beside the first alone, and joined the second when that went on.
    assert served.ends()[first] < served.begins(third)
    assert [count for count, _ in groupby(parked)] == [0, 1, 0]


def test_one_that_is_cancelled_while_it_is_parked_is_in_nobodys_way() -> None:
    pair = ScriptPair(says(LONG, block=10))

    def gone(desk: Desk) -> None:
        desk.tickets[1].cancelled |= pair.parked == 1

    served = desk(pair, gone)
    first, second, third = served.serve(asked(350), asked(350), asked(30))
    assert served.text(first) == list(ids_of(LONG))
    assert len(served.text(second)) == 190
    assert second not in served.ends()
    assert served.ends()[third] < served.ends()[first]
    assert pair.sessions == 0


@pytest.mark.parametrize("fault", ["round", "park", "resume"])
def test_a_parked_one_fails_with_its_batch_and_the_next_one_is_served(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = ScriptPair(says(LONG, block=10))

    def broken(batch: ScriptBatch, session: Session) -> None:
        raise RuntimeError("no")

    def breaks(desk: Desk) -> None:
        if fault == "round" and pair.parked == 1 and desk.tickets[0] not in desk.ends():
            pair.broken_rounds = 1

    if fault != "round":
        monkeypatch.setattr(ScriptBatch, fault, broken)
    served = desk(pair, breaks)
    first, second, third = served.serve(asked(350), asked(350), asked(30))
    failed = [ticket for ticket, item in served.news if isinstance(item, GenerationFailed)]
    assert failed == ([second] if fault == "resume" else [first, second])
    assert served.text(third) == list(ids_of(LONG))[:30]


@dataclass
class Watched:
    """Sessions of real batches."""

    sessions: list[Session] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    """How much of its answer each that was parked had."""

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        add, park = Batch.add, Batch.park

        def added(batch: Batch, request: Request) -> Session:
            self.sessions.append(add(batch, request))
            return self.sessions[-1]

        def parked(batch: Batch, session: Session) -> None:
            park(batch, session)
            self.parked.append(len(session.emitted))

        patch.setattr(Batch, "add", added)
        patch.setattr(Batch, "park", parked)

    @property
    def held(self) -> int:
        """Bytes of all caches."""
        caches = [cache for session in self.sessions for cache in (*session.caches, *session.context)]
        return sum(array.nbytes for cache in caches for array in cache.arrays)


@pytest.mark.parametrize("kept", [0, 1700])
def test_caches_that_grow_token_by_token_never_outgrow_memory(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, watched = ScriptedTarget(), Watched()
    pair = replace(load_runtime(None, "none"), target=target, speculator=ScriptedSpeculator(target, blurred))
    watched.watch(monkeypatch)
    requests = [
        scripted(sampling=sampling, max_tokens=300, speculation="always")
        for sampling in (Sampling(), Sampling(temperature=0.9, top_k=9, seed=3))
    ]
    # Four bytes a token in cache and context, and rows of blocks under way.
    room = Room(2 * 8 * 172, lambda tokens: 8 * (tokens + 64), kept=kept, step=100)
    prefix, held = PrefixStore(kept), list[int]()
    earlier = pair.batch(prefix=prefix)
    for first in range(9):
        earlier.add(scripted([first] * 30, max_tokens=9))
    run_all(earlier)
    assert kept // 2 <= prefix.nbytes <= kept
    watched.sessions.clear()

    def within(desk: Desk) -> None:
        held.append(watched.held + prefix.nbytes)

    served = Desk(pair, room, prefix, within)
    tickets = served.serve(*requests)
    assert [served.text(ticket) for ticket in tickets] == [plainly(request) for request in requests]
    assert len(watched.parked) == 1
    assert max(held) <= room.size + room.kept < 2 * 8 * (8 + 300)
    prefix.check()


STEP = 64


def test_a_real_pair_stays_within_memory_while_its_answers_grow_and_writes_what_it_writes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = load_runtime()
    prompts = [tuple(runtime.tokenizer.encode(f"Tell me of the number {number}, at length.")) for number in (1, 2)]
    samplings = [Sampling(), Sampling(temperature=0.9, frequency_penalty=0.4, seed=3)]
    requests = [
        Request(prompt, sampling, 3 * STEP, frozenset(), "always", top_logprobs=1, marks=(len(prompt) - 1,))
        for prompt, sampling in zip(prompts, samplings, strict=True)
    ]
    alone = [_alone(runtime, each) for each in requests]
    # At the first step what is kept gives way to both, at the second one of them has to.
    # Blocks are decoded in buffers of their own, so these are the sums of sessions alone.
    need = runtime.footprint.session
    one, two = (2 * need(max(map(len, prompts)) + STEP * steps) for steps in (1, 2))
    room = Room(one, need, kept=two - one + 10_000, step=STEP)
    prefix, watched = PrefixStore(room.kept), Watched()
    budgets, kept = set[int](), set[int]()
    watched.watch(monkeypatch)

    def within(desk: Desk) -> None:
        assert watched.held + prefix.nbytes <= room.size + room.kept
        budgets.add(prefix.budget)
        kept.add(prefix.nbytes)

    served = Desk(runtime, room, prefix, within)
    tickets = served.serve(*requests)
    prefix.check()
    assert [served.text(ticket) for ticket in tickets] == [ids for ids, _ in alone]
    assert [served.scores(ticket) for ticket in tickets] == [scores for _, scores in alone]
    (parked_at,) = watched.parked
    assert STEP < parked_at < 3 * STEP
    assert min(budgets) < 20_000 < max(kept) < max(budgets) == room.kept


def _alone(runtime: Runtime, request: Request) -> tuple[list[int], list[Scored]]:
    batch = Batch(runtime.target, None)
    session = batch.add(request)
    updates = run_all(batch)[session]
    return text(updates), [score for update in updates for score in update.scores]
