"""Random conversations against the plainest decoding there is: nothing kept, drafted, shared or left changes a text."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import mlx.core as mx
import pytest

from models.contract import LayerCache, Output, Row, Target
from models.decode.batch import Batch
from models.decode.constraint import Grammar
from models.decode.disk import Disk
from models.decode.folder import Folder
from models.decode.prefix import PrefixStore
from models.decode.request import Request, Sampling, Speculation, ThinkingBudget
from models.decode.session import Session
from models.decode.shelf import ShelvedStore
from models.runtime import Runtime, load_runtime
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.score import turns_of
from tests.decode.scripted import run_all
from tests.tools.reading import tool
from tools.grammar import Calls, grammar

WEATHER = tool("get_weather", {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}, ["city"])
SAMPLINGS = [
    Sampling(),
    Sampling(1.0, seed=3),
    Sampling(1.4, seed=-7),
    Sampling(0.8, 20, 0.9, 0.02, seed=2**62),
    Sampling(presence_penalty=0.6, frequency_penalty=0.2, repetition_penalty=1.1),
    Sampling(1.0, seed=1, logit_bias=((40, 1.0), (300, -100.0)), frequency_penalty=-0.3),
]
SPECULATION: list[Speculation] = ["auto", "auto", "always", "off"]
EDGES = (1, 2, 15, 16, 63, 64, 65, 79, 80, 127, 128, 129)
"""Lengths around blocks and windows."""
BUDGETS = (60_000, 500_000, 3_000_000, 1 << 30)
"""Bytes: less than one prompt, a few of them, many, and all."""
LONGEST = 220


@dataclass
class Witness:
    """The target, and where the caches of each session stood when it first read anything."""

    real: Target
    began: dict[int, tuple[Sequence[LayerCache], int]] = field(default_factory=dict)
    """By identity, which is nobody else's while the caches are held here."""

    def resumed(self, caches: Sequence[LayerCache]) -> int | None:
        """Tokens that were not read anew; None where nothing was read."""
        return self.began[id(caches)][1] if id(caches) in self.began else None

    @property
    def vocab_size(self) -> int:
        return self.real.vocab_size

    def make_caches(self, slack: int, room: int = 0) -> list[LayerCache]:
        return self.real.make_caches(slack, room)

    def __call__(
        self, ids: mx.array, rows: Sequence[Row], *, taps: Sequence[int] = (), logit_rows: mx.array | None = None
    ) -> Output:
        for row in rows:
            self.began.setdefault(id(row.caches), (row.caches, row.caches[0].offset))
        return self.real(ids, rows, taps=taps, logit_rows=logit_rows)


@dataclass
class Plain:
    """What is written without a speculator, without anything kept, alone, and read in one piece."""

    runtime: Runtime
    known: dict[Request, Session] = field(default_factory=dict)

    def answer(self, request: Request) -> Session:
        bare = replace(request, speculation="off", prediction=(), marks=(), top_logprobs=None, prompt_logprobs=None)
        if bare not in self.known:
            batch = Batch(self.runtime.target, None, prefill_chunk=4096)
            self.known[bare] = batch.add(bare)
            run_all(batch)
        return self.known[bare]


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain(load_runtime())


@dataclass
class Talk:
    """Conversations that go on, part and are edited, and requests for them."""

    plain: Plain
    dice: Random
    grammar: Grammar
    openings: list[tuple[int, ...]]
    known: list[tuple[int, ...]]

    @classmethod
    def of(cls, plain: Plain, dice: Random) -> "Talk":
        runtime = plain.runtime
        openings = [
            tuple(runtime.tokenizer.encode(prompt)) for index in range(4) for _, prompt, _ in turns_of(held_out(index))
        ]
        assert runtime.grammars is not None
        forced = runtime.grammars.compile(grammar(thinking=True, calls=Calls([WEATHER], required=True, parallel=False)))
        return cls(plain, dice, forced, openings, dice.sample(openings, 2))

    def prompt(self) -> tuple[int, ...]:
        dice, base = self.dice, self.dice.choice(self.known)
        more = dice.choice(self.openings)[-dice.randint(1, 30) :]
        match dice.randrange(6):
            case 0:
                base = dice.choice(self.openings)
            case 1 | 2:
                base = (*base, *more)
            case 3:
                base = (*base[: dice.randint(1, len(base))], *more)
            case 4:
                place = dice.randrange(len(base))
                base = (*base[:place], dice.randrange(30, 900), *base[place + 1 :])
        return base[: dice.choice((LONGEST, LONGEST, LONGEST, *EDGES))]

    def request(self) -> Request:
        dice, tokenizer = self.dice, self.plain.runtime.tokenizer
        prompt, close = self.prompt(), tokenizer.token_id("</think>")
        assert close is not None
        marks = {dice.randint(1, len(prompt) - 1) for _ in range(dice.randrange(4))} if len(prompt) > 1 else set()
        request = Request(
            prompt,
            dice.choice(SAMPLINGS),
            dice.choice((1, 2, 9, 24)),
            tokenizer.eos_ids,
            dice.choice(SPECULATION),
            marks=tuple(sorted(marks)),
            grammar=self.grammar if dice.random() < 0.15 else None,
            thinking=ThinkingBudget(dice.choice((0, 1, 7)), close) if dice.random() < 0.2 else None,
            top_logprobs=dice.choice((None, None, None, 0, 2)),
            prompt_logprobs=1 if dice.random() < 0.05 else None,
        )
        if dice.random() < 0.15:
            request = replace(request, min_tokens=dice.randint(1, request.max_tokens))
        said = self.plain.answer(request).emitted
        cut = dice.randint(0, len(said))
        predicted = dice.choice(((), (), said, [*said[:cut], 50, *said[cut:]], said[cut:], [4, 5, 6, 7] * 3))
        return replace(request, prediction=tuple(predicted))


@dataclass
class Server:
    """One folder, and a batch over a store that comes and goes."""

    plain: Plain
    dice: Random
    folder: Path

    def __post_init__(self) -> None:
        self.witness = Witness(self.plain.runtime.target)
        self.most, self.chunk = self.dice.choice((1, 2, 6, 16)), self.dice.choice((1, 5, 16, 64, 512))
        self.budget, self.on_disk = self.dice.choice(BUDGETS), self.dice.random() < 0.5
        self.store = self._store()
        self.batch = self._batch()

    def restart(self) -> None:
        """Another batch, and often another process: nothing but what is on disk."""
        if self.dice.random() < 0.6:
            self.store.close()
            self.store = self._store()
        self.batch = self._batch()

    def _store(self) -> PrefixStore:
        rung = self.dice.choice((16, 100, 8192))
        if not self.on_disk:
            return PrefixStore(self.budget, rung=rung)
        folder = Folder(self.folder / "m", self.dice.choice((500_000, 1 << 30)))
        return ShelvedStore(self.budget, Disk(folder, "m"), rung=rung)

    def _batch(self) -> Batch:
        beside = self.dice.choice((None, 1, 7))
        drafting = self.plain.runtime.speculator
        return Batch(self.witness, drafting, prefix=self.store, prefill_chunk=self.chunk, prefill_chunk_beside=beside)


def played(server: Server, talk: Talk, count: int) -> int:
    """So many requests that join at any round; some leave. Returns how many prompt tokens were resumed."""
    dice, got, resumed = talk.dice, dict[Session, list[int]](), 0
    while count or got:
        while count and len(got) < server.most and dice.random() < 0.7:
            got[server.batch.add(talk.request())] = []
            count -= 1
        for update in server.batch.step():
            assert update.error is None
            got[update.session] += update.ids
        server.store.check()
        for session in [each for each in got if each.caches]:
            assert server.witness.resumed(session.caches) in (None, session.cached)
        if server.batch.sessions and dice.random() < 0.03:
            server.batch.cancel(dice.choice(server.batch.sessions))
        for session in [each for each in got if each.finish is not None]:
            said, wanted = got.pop(session), talk.plain.answer(session.request)
            assert said == (wanted.emitted if session.finish != "cancelled" else wanted.emitted[: len(said)])
            assert session.finish in (wanted.finish, "cancelled")
            talk.known = [*talk.known[-5:], (*session.request.prompt, *said)]
            resumed += session.cached
        if not got:
            server.witness.began.clear()
            if dice.random() < 0.2:
                server.restart()
    server.store.close()
    return resumed


@pytest.mark.parametrize("seed", [*range(4), *[pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 60)]])
def test_no_text_hangs_on_what_is_kept_drafted_or_beside(
    plain: Plain, seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dice = Random(seed)
    with caplog.at_level(logging.WARNING, "models"):
        played(Server(plain, dice, tmp_path), Talk.of(plain, dice), 14)
    assert [record.getMessage() for record in caplog.records] == []
