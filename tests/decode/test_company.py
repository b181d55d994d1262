"""Whoever decodes beside a session, and wherever its drafts come from, it writes what it writes alone."""

from dataclasses import dataclass, replace
from random import Random

import pytest

from models.decode.acceptance import Phase
from models.decode.batch import Batch
from models.decode.session import Request, Sampling, Session, Speculation
from tests.decode.scripted import (
    VOCAB,
    ScriptedSpeculator,
    ScriptedTarget,
    asked,
    blurred,
    plainly,
    right_to,
    run_all,
    text,
)

SAMPLINGS = [
    Sampling(),
    Sampling(temperature=1.3, seed=5),
    Sampling(temperature=0.8, top_k=7, seed=-9),
    Sampling(temperature=1.1, top_p=0.8, min_p=0.02, seed=2**62),
    Sampling(presence_penalty=1.5, frequency_penalty=0.5),
    Sampling(temperature=0.7, repetition_penalty=1.4, logit_bias=((3, 4.0), (9, -100.0)), seed=4),
]
SPECULATION: list[Speculation] = ["auto", "always", "off"]
PHASES: tuple[tuple[int, Phase], ...] = ((5, "thinking"), (6, "answer"), (7, "arguments"))


def alone(request: Request) -> list[int]:
    """The text without speculation, in a batch of its own; processors are no part of the plainest loop."""
    target = ScriptedTarget(remembered=3)
    batch = Batch(target, None)
    session = batch.add(replace(request, speculation="off", prediction=()))
    return text(run_all(batch)[session])


def random_request(random: Random) -> Request:
    """Any prompt, sampling, source of drafts and budget; predictions are right, half right or wrong."""
    prompt = [random.randrange(VOCAB - 1) for _ in range(random.choice((1, 3, 9, 60)))]
    plain = asked(
        prompt, sampling=random.choice(SAMPLINGS), max_tokens=random.randint(1, 60), stop_ids=random.choice(((), (0,)))
    )
    said = alone(plain)
    cut = random.randint(0, len(said))
    prediction = random.choice(((), said, [*said[:cut], 11, *said[cut:]], said[cut:], [1, 2, 3, 4, 5] * 4))
    return replace(
        plain, speculation=random.choice(SPECULATION), prediction=tuple(prediction), phase="thinking", phases=PHASES
    )


@dataclass
class Crowd:
    """Sessions that join, and leave, at any round."""

    batch: Batch
    waiting: list[Request]
    random: Random
    most: int

    def run(self) -> dict[Session, list[int]]:
        got: dict[Session, list[int]] = {}
        while self.waiting or self.batch.sessions:
            while self.waiting and len(self.batch.sessions) < self.most and self.random.random() < 0.85:
                got[self.batch.add(self.waiting.pop())] = []
            for update in self.batch.step():
                assert update.error is None
                got[update.session] += update.ids
            if self.batch.sessions and self.random.random() < 0.01:
                self.batch.cancel(self.random.choice(self.batch.sessions))
        return got


@pytest.mark.parametrize("most", [1, 4, 16])
@pytest.mark.parametrize(("chunk", "beside"), [(512, 128), (7, 1), (3, 16)])
@pytest.mark.parametrize("drafted", [True, False])
def test_each_of_a_crowd_writes_what_it_writes_alone(most: int, chunk: int, beside: int, drafted: bool) -> None:
    random = Random(f"{most} {chunk} {drafted}")
    requests = [random_request(random) for _ in range(most + 6)]
    target = ScriptedTarget(remembered=3)
    speculator = ScriptedSpeculator(target, blurred if random.random() < 0.5 else right_to(3)) if drafted else None
    batch = Batch(target, speculator, prefill_chunk=chunk, prefill_chunk_beside=beside)
    got = Crowd(batch, requests[::-1], random, most).run()
    assert len(got) == len(requests)
    for session, ids in got.items():
        wanted = alone(session.request)
        assert ids == (wanted if session.finish != "cancelled" else wanted[: len(ids)])
    assert sum(session.finish != "cancelled" for session in got) > len(got) / 2
    assert max(rows for rows, _ in target.passes) >= min(most, 4)


def test_a_greedy_session_beside_a_hot_one_and_a_long_prompt_beside_short_ones() -> None:
    requests = [
        asked([3, 1, 4], sampling=SAMPLINGS[0], speculation="auto"),
        asked([3, 1, 4], sampling=SAMPLINGS[1], speculation="auto"),
        asked([2] * 400, sampling=SAMPLINGS[3], speculation="always"),
        asked([9], sampling=SAMPLINGS[0], speculation="off"),
    ]
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, right_to(3)), prefill_chunk=50, prefill_chunk_beside=9)
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert [text(got[session]) for session in sessions] == [plainly(request) for request in requests]


def test_acceptance_is_learned_by_the_phase_a_block_began_in() -> None:
    marks = dict(PHASES)
    request = replace(asked([8, 8], max_tokens=200), phase="thinking", phases=PHASES)
    target = ScriptedTarget()
    batch = Batch(target, ScriptedSpeculator(target, right_to(3)))
    session = batch.add(request)
    said = text(run_all(batch)[session])
    phases, now = ["thinking"], "thinking"
    for token in said:
        now = marks.get(token, now)
        phases.append(now)
    drafted = {subject.phase for subject in session.record.known if subject.source == "speculator"}
    assert len(set(phases)) == 3
    assert drafted == set(phases)
    assert batch.learned.record.known.keys() == session.record.known.keys()
