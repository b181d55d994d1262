"""Everything a request can wish for at once, with the embedded pair: the same ids at every width, alone and beside."""

from dataclasses import replace

import pytest

from models.decode.batch import Batch
from models.decode.prefix import PrefixStore
from models.decode.request import Request, Sampling, ThinkingBudget
from models.dflash_laguna import DFlashLaguna
from models.runtime import Runtime, load_runtime
from tests.decode.scripted import run_all
from tests.tools.reading import read, tool
from tools.grammar import Calls, grammar
from tools.laguna import fold

WEATHER = tool("get_weather", {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}, ["city"])
WISHES = Sampling(
    0.9, 40, 0.95, 0.01, seed=21, logit_bias=((40, 1.0), (300, -100.0)), presence_penalty=0.2, frequency_penalty=0.1,
    repetition_penalty=1.05,
)  # fmt: skip


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime()


def everything(runtime: Runtime, ask: str, sampling: Sampling) -> Request:
    tokenizer = runtime.tokenizer
    prompt = tokenizer.render([{"role": "user", "content": ask}], [WEATHER], enable_thinking=True)
    close = tokenizer.token_id("</think>")
    assert close is not None
    assert runtime.grammars is not None
    forced = grammar(thinking=True, calls=Calls([WEATHER], required=True, parallel=False))
    return Request(
        tuple(tokenizer.encode(prompt)),
        sampling,
        80,
        tokenizer.eos_ids,
        "always",
        min_tokens=12,
        thinking=ThinkingBudget(7, close),
        grammar=runtime.grammars.compile(forced),
        top_logprobs=2,
        prediction=tuple(tokenizer.encode("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value>")),
    )


@pytest.mark.parametrize("sampling", [WISHES, replace(WISHES, temperature=0.0)])
def test_all_at_once_is_the_same_at_every_width(runtime: Runtime, sampling: Sampling) -> None:
    assert isinstance(runtime.speculator, DFlashLaguna)
    asks = ["What is the weather in Rome?", "Hello!"]
    requests = [everything(runtime, ask, sampling) for ask in asks]
    plain = Batch(runtime.target, None)
    wanted = [(plain.add(replace(request, prediction=())), run_all(plain))[0].emitted for request in requests]
    whole = runtime.speculator.config
    try:
        for width in (3, 9, 16):
            runtime.speculator.config = replace(whole, block_size=width)
            batch = Batch(runtime.target, runtime.speculator, prefill_chunk=48)
            sessions = [batch.add(request) for request in requests]
            got = run_all(batch)
            assert [session.emitted for session in sessions] == wanted
            assert sum(session.stats.accepted for session in sessions) > 0
            for session in sessions:
                assert sum(len(update.scores) for update in got[session]) == len(session.emitted)
    finally:
        runtime.speculator.config = whole
    for ids in wanted:
        said = runtime.tokenizer.decoder().push(ids)
        message = fold(read([said], [WEATHER], thinking=True))
        assert [call.name for call in message.calls] == ["get_weather"]
        assert len(ids) >= 12


def test_all_at_once_is_the_same_though_it_is_parked_after_every_round(runtime: Runtime) -> None:
    request = everything(runtime, "What is the weather in Rome?", WISHES)
    alone = runtime.batch()
    wanted = (alone.add(request), run_all(alone))[0].emitted
    batch = runtime.batch(prefix=PrefixStore(1 << 30))
    session = batch.add(request)
    while batch.sessions:
        batch.step()
        for running in batch.sessions:
            batch.park(running)
            batch.resume(running)
    assert session.emitted == wanted
