"""A real (random) pair behind a real socket: the text hangs on prompt and seed alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx2
import pytest

from models.runtime import load_runtime
from server.settings import Settings
from tests.models.tiny_checkpoint import write_pair
from tests.runtime.checkpoint_files import write_tokenizer
from tests.server.stand import running, wait_until
from tests.server.wire import chunks, folded, refused

WIDTH = 384
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("models") / "Laguna-Random"
    sizes = {"vocab_size": WIDTH, "draft_vocab_size": WIDTH}
    write_pair(folder, speculator=sizes, max_position_embeddings=640, vocab_size=WIDTH)
    write_tokenizer(folder)
    settings = Settings(model=str(folder), prefill_chunk=24)
    with (
        running(partial(load_runtime, settings.model, settings.speculator), settings) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=60) as client,
    ):
        wait_until(lambda: engine.health.state != "loading")
        yield client


def say(http: httpx2.Client, **body: object) -> httpx2.Response:
    asked = {"messages": [{"role": "user", "content": "hello there"}], "max_tokens": 24, "seed": 11} | body
    return http.post("/chat/completions", json=asked)


def text(response: httpx2.Response) -> tuple[str, str | None]:
    (choice,) = response.json()["choices"]
    return choice["finish_reason"], choice["message"]["content"]


@pytest.mark.parametrize("temperature", [0, 0.7, 1.2])
def test_one_seed_is_one_text_with_and_without_the_speculator_alone_or_in_company(
    http: httpx2.Client, temperature: float
) -> None:
    alone = say(http, temperature=temperature, speculation="off")
    assert alone.json()["laguna"]["drafted"] == 0
    assert alone.json()["laguna"]["speculation_off"] is not None
    drafted = say(http, temperature=temperature, speculation="always")
    assert drafted.json()["laguna"]["drafted"] > 0
    assert drafted.json()["laguna"]["speculation_off"] is None
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(say, http, seed=seed, temperature=1, max_tokens=32) for seed in (1, 2, 3)]
        beside = pool.submit(say, http, temperature=temperature, speculation="always").result()
        assert all(other.result().status_code == 200 for other in others)
    assert text(alone) == text(drafted) == text(beside)
    assert alone.json()["usage"] == drafted.json()["usage"]


def test_seeds_differ_and_no_seed_is_a_fresh_one(http: httpx2.Client) -> None:
    assert len({text(say(http, temperature=1.2, seed=seed)) for seed in (1, 2, -3, None, None)}) == 5


@pytest.mark.parametrize("thinking", ["none", "high"])
def test_the_fold_of_a_real_stream_is_the_answer(http: httpx2.Client, thinking: str) -> None:
    for seed in range(4):
        wishes = {"seed": seed, "temperature": 1.2, "tools": [TOOL], "reasoning_effort": thinking, "max_tokens": 48}
        stream = chunks(say(http, stream=True, stream_options={"include_usage": True}, **wishes))
        answer = say(http, **wishes).json()
        message = answer["choices"][0]["message"]
        assert folded(stream)["content"] == (message["content"] or "")
        assert folded(stream)["reasoning_content"] == message.get("reasoning_content", "")
        details = ("prompt_tokens", "completion_tokens", "completion_tokens_details")
        assert [stream[-1]["usage"][name] for name in details] == [answer["usage"][name] for name in details]
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        assert answer["usage"]["completion_tokens"] <= 48


def test_a_long_prompt_is_refused_and_a_long_answer_ends_with_the_context(http: httpx2.Client) -> None:
    error = refused(say(http, messages=[{"role": "user", "content": "x" * 5000}], stream=True))
    assert error["code"] == "context_length_exceeded"
    answer = say(http, messages=[{"role": "user", "content": "xy " * 150}], max_tokens=10_000, temperature=1.2).json()
    assert answer["usage"]["total_tokens"] <= 640


def test_clients_that_leave_a_real_generation_free_their_slots_and_disturb_nobody(http: httpx2.Client) -> None:
    endless = {
        "max_tokens": 600,
        "temperature": 1.2,
        "stream": True,
        "messages": [{"role": "user", "content": "go on"}],
    }
    wanted = text(say(http, max_tokens=6))
    for _ in range(8):
        with http.stream("POST", "/chat/completions", json=endless) as response:
            # Named, so that the stream is not closed before the client leaves it.
            pieces = response.iter_text()
            next(pieces)
        assert text(say(http, max_tokens=6)) == wanted
    health = http.base_url.copy_with(path="/health")
    wait_until(lambda: http.get(health).json()["running"] == 0)


def test_clients_that_time_out_and_try_again_at_once_leave_the_pair_as_it_was(http: httpx2.Client) -> None:
    """What ran for them is dropped by the thread that runs it, whichever step it is in."""
    endless = {"max_tokens": 600, "temperature": 1.2, "messages": [{"role": "user", "content": "go on"}]}
    wanted = text(say(http, max_tokens=6))
    for attempt in range(50):
        with pytest.raises(httpx2.ReadTimeout):
            http.post("/chat/completions", json=endless | {"seed": attempt}, timeout=0.02)
    assert text(say(http, max_tokens=6)) == wanted
    health = http.base_url.copy_with(path="/health")
    wait_until(lambda: http.get(health).json()["running"] == http.get(health).json()["waiting"] == 0)
    assert http.get(health).json()["status"] == "ok"
    assert text(say(http, max_tokens=6)) == wanted
