"""Grammars in the loop: every answer follows its own, and stays the same at every width, beside anyone."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.decode.batch import Batch
from models.decode.constraint import Block, ConstraintError, Grammar, GrammarError, Grammars, Masks
from models.decode.session import Request, Sampling, Speculation
from models.dflash_laguna import DFlashLaguna
from models.runtime import Runtime, load_runtime
from tests.decode.scripted import run_all, text
from tests.tools.reading import read, tool
from tools.grammar import Calls, JsonAnswer, grammar
from tools.laguna import fold

WEATHER = tool("get_weather", {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}, ["city"])
POINT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "x": {"type": "integer", "minimum": -9, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "x", "tags"],
}
TEXTS = {
    "calls": grammar(thinking=False, calls=Calls([WEATHER], required=True)),
    "json": grammar(thinking=False, answer=JsonAnswer(POINT)),
    "thought": grammar(thinking=True, calls=Calls([WEATHER], required=True, parallel=False)),
    "free": grammar(thinking=False, calls=Calls([WEATHER], strict=frozenset({"get_weather"}))),
}
ASKS = ["What is the weather in Oslo?", "Hello!", "Tell me of Rome in fahrenheit."]
MANY = {"type": "object", "properties": {f"p{i}": {"type": "string", "minLength": 1} for i in range(12_000)}}
OPTIONAL = tool("f", {f"p{i}": {"type": "string"} for i in range(2_000)})
MOST = 40
SPECULATIONS: tuple[Speculation, ...] = ("off", "auto", "always")
GREEDY, HOT = Sampling(), Sampling(1.2, seed=5)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


@pytest.fixture(scope="module")
def grammars(runtime: Runtime) -> dict[str, Grammar]:
    assert runtime.grammars is not None
    return {name: runtime.grammars.compile(source) for name, source in TEXTS.items()}


def asked(
    runtime: Runtime,
    ask: str,
    followed: Grammar | None,
    sampling: Sampling = GREEDY,
    *,
    thinking: bool = False,
    speculation: Speculation = "always",
    max_tokens: int = MOST,
) -> Request:
    prompt = runtime.tokenizer.render([{"role": "user", "content": ask}], [WEATHER], enable_thinking=thinking)
    ids, ends = tuple(runtime.tokenizer.encode(prompt)), runtime.tokenizer.eos_ids
    return Request(ids, sampling, max_tokens, ends, speculation, grammar=followed)


def answers(batch: Batch, requests: Sequence[Request]) -> list[list[int]]:
    sessions = [batch.add(request) for request in requests]
    got = run_all(batch)
    assert {session.finish for session in sessions} <= {"stop", "length"}
    return [text(got[session]) for session in sessions]


def spoken(runtime: Runtime, ids: Sequence[int]) -> str:
    decoder = runtime.tokenizer.decoder()
    return decoder.push(ids) + decoder.finish()


@pytest.fixture
def speculator(runtime: Runtime) -> Iterator[DFlashLaguna]:
    """The pair's; a test may narrow its blocks."""
    assert isinstance(runtime.speculator, DFlashLaguna)
    whole = runtime.speculator.config
    yield runtime.speculator
    runtime.speculator.config = whole


@pytest.mark.parametrize(("name", "sampling"), [("calls", HOT), ("json", GREEDY), ("thought", HOT), ("free", GREEDY)])
def test_an_answer_under_a_grammar_is_the_same_at_every_width_alone_and_beside_others(
    runtime: Runtime, speculator: DFlashLaguna, grammars: dict[str, Grammar], name: str, sampling: Sampling
) -> None:
    thinking = name == "thought"
    requests = [asked(runtime, ask, grammars[name], sampling, thinking=thinking) for ask in ASKS]
    wanted = [answers(Batch(runtime.target, None), [request])[0] for request in requests]
    free = [asked(runtime, ask, None, HOT) for ask in ASKS[:2]]
    plain = [answers(Batch(runtime.target, None), [request])[0] for request in free]
    for width in (3, 5, 9, 16):
        speculator.config = replace(speculator.config, block_size=width)
        if width in (3, 9):
            assert answers(Batch(runtime.target, speculator), requests[1:2]) == wanted[1:2]
        else:
            beside = answers(Batch(runtime.target, speculator, prefill_chunk=32), [*requests, *free])
            assert beside == [*wanted, *plain]


@pytest.mark.parametrize("seed", range(6))
def test_every_prompt_and_seed_gives_what_the_grammar_asks_for(
    runtime: Runtime, grammars: dict[str, Grammar], seed: int
) -> None:
    sampling, speculation = Sampling(0.4 * seed, seed=seed), SPECULATIONS[seed % 3]
    requests = [
        asked(runtime, ask, grammars[name], sampling, speculation=speculation)
        for name in ("calls", "json")
        for ask in ASKS
    ]
    got = answers(runtime.batch(), requests)
    for ids in got[len(ASKS) :]:
        point = json.loads(spoken(runtime, ids))
        assert set(point) == set(POINT["required"])
        assert -9 <= point["x"] <= 99
    for ids in got[: len(ASKS)]:
        cut = len(ids) == MOST
        message = fold(read([spoken(runtime, ids)], [WEATHER], end="length" if cut else "stop"))
        assert message.calls or cut
        assert all("city" in json.loads(call.arguments) for call in message.calls)


def test_a_cut_answer_is_the_beginning_of_a_valid_one(runtime: Runtime, grammars: dict[str, Grammar]) -> None:
    whole = answers(runtime.batch(), [asked(runtime, ASKS[0], grammars["calls"])])[0]
    for limit in (1, 2, 5, 9):
        batch = runtime.batch()
        session = batch.add(asked(runtime, ASKS[0], grammars["calls"], max_tokens=limit))
        assert text(run_all(batch)[session]) == whole[:limit]
        assert session.finish == "length"


def test_masks_along_a_block_are_those_of_every_step(runtime: Runtime, grammars: dict[str, Grammar]) -> None:
    masks, ids = (
        Masks(runtime.target.vocab_size),
        answers(runtime.batch(), [asked(runtime, ASKS[0], grammars["calls"])]),
    )
    along, beside, step = (grammars["calls"].start() for _ in range(3))
    block = masks.words([Block(along, ids[0]), Block(None, ids[0][:2]), Block(beside, ids[0][:3], lead=1)])
    singly = []
    for token in [*ids[0], None]:
        singly.append(masks.words([Block(step, [])])[0])
        if token is not None:
            step.keep([token])
    rows = len(ids[0]) + 1
    assert np.array_equal(block[:rows], np.stack(singly))
    assert np.array_equal(block[rows : rows + 3], np.full_like(block[:3], -1))
    assert np.array_equal(block[rows + 3 :], np.stack(singly[1:4]))


def test_what_follows_a_draft_that_is_not_allowed_is_left_alone(runtime: Runtime, grammars: dict[str, Grammar]) -> None:
    constraint = grammars["calls"].start()
    words = Masks(runtime.target.vocab_size).words([Block(constraint, [300, 24, 301])])
    assert np.unpackbits(words[0].view(np.uint8)).sum() == 1
    assert np.array_equal(words[1:], np.full_like(words[1:], -1))
    constraint.keep([25])


def test_an_id_outside_the_grammar_is_not_kept(grammars: dict[str, Grammar]) -> None:
    with pytest.raises(ConstraintError, match="left its grammar"):
        grammars["calls"].start().keep([300])


def test_a_grammar_that_outgrows_its_limits_ends_its_own_session_alone(
    runtime: Runtime, grammars: dict[str, Grammar]
) -> None:
    batch = runtime.batch()
    lost, kept = batch.add(asked(runtime, ASKS[0], grammars["calls"])), batch.add(asked(runtime, ASKS[0], None))
    assert lost.constraint is not None
    with pytest.raises(ConstraintError):
        lost.constraint.keep([300])
    got = run_all(batch)
    assert (lost.finish, kept.finish) == ("error", "stop")
    assert isinstance(got[lost][-1].error, ConstraintError)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("%llguidance {}\nstart: nothing\n", "nothing"),
        ('%llguidance {}\nstart: %json {"not": {}}\n', 'Unimplemented keys: ["not"]'),
        ('%llguidance {}\nstart: %json {"type": "objekt"}\n', "Invalid type: objekt"),
        (f"%llguidance {{}}\nstart: %json {json.dumps(MANY)}\n", "too large"),
        (grammar(thinking=False, calls=Calls([OPTIONAL], required=True)), "items"),
    ],
)
def test_a_grammar_that_is_none_is_refused_with_the_reason_alone(runtime: Runtime, source: str, told: str) -> None:
    assert runtime.grammars is not None
    with pytest.raises(GrammarError) as caught:
        runtime.grammars.compile(source)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "%llguidance" not in str(caught.value)


def test_a_tokenizer_that_is_none_is_refused() -> None:
    with pytest.raises(GrammarError, match="tokenizer"):
        Grammars("{}", 32, [2])


def test_what_a_grammar_forces_is_drafted_without_a_network(runtime: Runtime, grammars: dict[str, Grammar]) -> None:
    plain = answers(Batch(runtime.target, None), [asked(runtime, ASKS[1], grammars["calls"], speculation="off")])
    batch = Batch(runtime.target, None)
    session = batch.add(asked(runtime, ASKS[1], grammars["calls"]))
    assert [text(run_all(batch)[session])] == plain
    ((source, drafted, accepted),) = session.stats.by_source
    assert source == "grammar"
    assert 8 <= accepted == drafted
    assert grammars["calls"].start().forced()[0] == 25
