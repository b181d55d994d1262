"""Completions over a real socket: four forms of prompts, in a stream and whole, with the SDK and without."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from server.api.parameters import IGNORED
from tests.server.script import EOS, ScriptPair, ScriptTokenizer, forever, ids_of, says
from tests.server.stand import Stand, stand
from tests.server.wire import chunks, refused

MODEL = "Laguna-Script"


def parrot(prompt: str) -> list[tuple[int, ...]]:
    """Says the prompt backwards, two ids a round."""
    ids = ids_of(prompt)[::-1]
    return [ids[start : start + 2] for start in range(0, len(ids), 2)]


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(parrot)) as running:
        yield running


def complete(served: Stand, **body: object) -> dict[str, Any]:
    response = served.http.post("/v1/completions", json={"model": MODEL} | body)
    assert response.status_code == 200, response.text
    return response.json()


def texts(answer: dict[str, Any]) -> list[str]:
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(answer["choices"])))
    return [choice["text"] for choice in answer["choices"]]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("abc", ["cba"]),
        (["abc", "de"], ["cba", "ed"]),
        ([97, 98], ["ba"]),
        ([[97, 98], [99]], ["ba", "c"]),
    ],
)
def test_a_prompt_is_text_or_ids_one_or_many(served: Stand, prompt: object, expected: list[str]) -> None:
    answer = complete(served, prompt=prompt)
    assert texts(answer) == expected
    assert (answer["object"], answer["id"][:5]) == ("text_completion", "cmpl-")
    spoken = sum(len(text) for text in expected)
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (spoken, spoken, 2 * spoken)
    assert texts(complete(served, prompt=prompt, echo=True)) == [text[::-1] + text for text in expected]


def test_choices_are_prompt_by_prompt_and_each_prompt_is_counted_once(served: Stand) -> None:
    answer = complete(served, prompt=["ab", "cde"], n=2, seed=7)
    assert texts(answer) == ["ba", "ba", "edc", "edc"]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (5, 10)
    requests = sorted(served.pair.requests[-4:], key=lambda request: request.prompt)
    seeds = [request.sampling.seed for request in requests]
    assert set(seeds[:2]) == set(seeds[2:])
    assert 7 in seeds


def test_no_template_is_rendered_and_nothing_is_read_in_the_answer(served: Stand) -> None:
    text = "<think>hm</think><tool_call>f</tool_call>"
    with stand(ScriptPair(says(text))) as plain:
        choice = complete(plain, prompt="Once", max_tokens=50)["choices"][0]
        assert (choice["text"], choice["finish_reason"], choice["logprobs"]) == (text, "stop", None)
        assert plain.pair.prompts == ["Once"]
    assert complete(served, prompt="<think>a")["usage"]["prompt_tokens"] == 2


def test_sixteen_tokens_are_the_default(served: Stand) -> None:
    with stand(ScriptPair(forever)) as endless:
        choice = complete(endless, prompt="x")["choices"][0]
        assert (len(choice["text"]), choice["finish_reason"]) == (16, "length")
        assert len(complete(endless, prompt="x", max_tokens=20)["choices"][0]["text"]) == 20


def test_wishes_reach_the_loop(served: Stand) -> None:
    complete(
        served,
        prompt="ab",
        temperature=1.5,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        seed=-4,
        logit_bias={"97": 5},
        presence_penalty=1,
        frequency_penalty=-1,
        repetition_penalty=1.2,
        min_tokens=2,
        speculation="off",
        best_of=1,
    )
    request = served.pair.requests[-1]
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.5, 0.5, 3, 0.1)
    assert (sampling.seed, sampling.logit_bias) == (-4, ((97, 5.0),))
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1, -1, 1.2)
    assert (request.min_tokens, request.speculation) == (2, "off")


def test_a_stop_string_is_not_shown(served: Stand) -> None:
    choice = complete(served, prompt="abcdef", stop=["cb", "zz"])["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("fed", "stop")


def test_the_stream_adds_up_to_the_answer_with_usage_last(served: Stand) -> None:
    asked: Any = {"prompt": ["abc", "defé"], "n": 2, "echo": True, "seed": 1}
    whole = complete(served, **asked)
    response = served.http.post(
        "/v1/completions", json=asked | {"stream": True, "stream_options": {"include_usage": True}}
    )
    stream = chunks(response)
    assert {(chunk["id"], chunk["object"], chunk["created"]) for chunk in stream} == {
        (stream[0]["id"], "text_completion", stream[0]["created"])
    }
    assert all(chunk["usage"] is None for chunk in stream[:-1])
    assert (stream[-1]["choices"], stream[-1]["usage"]) == ([], whole["usage"])
    for choice in whole["choices"]:
        own = [c for chunk in stream[:-1] for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(c["text"] for c in own) == choice["text"]
        assert [c["finish_reason"] for c in own] == [None] * (len(own) - 1) + ["stop"]
    bare = chunks(served.http.post("/v1/completions", json=asked | {"stream": True}))
    assert all("usage" not in chunk for chunk in bare)
    assert "laguna" in bare[-1]


def test_log_probabilities_have_the_legacy_shape_in_a_stream_and_whole() -> None:
    with stand(ScriptPair(says("hé!"))) as served:
        told = complete(served, prompt="x", logprobs=2)["choices"][0]["logprobs"]
        assert told["tokens"] == ["h", "", "é", "!"]
        assert told["text_offset"] == [0, 1, 1, 2]
        assert told["token_logprobs"] == [-104 / 64, -195 / 64, -169 / 64, -33 / 64]
        assert told["top_logprobs"][0] == {"h": -104 / 64, "i": -1 / 8}
        assert told["top_logprobs"][1] == {"": -195 / 64, "bytes:\\xc4": -1 / 8}
        stream = chunks(served.http.post("/v1/completions", json={"prompt": "x", "logprobs": 2, "stream": True}))
        parts = [chunk["choices"][0]["logprobs"] for chunk in stream if chunk["choices"][0]["logprobs"]]
        assert {key: [entry for part in parts for entry in part[key]] for key in told} == told
        none = complete(served, prompt="x", logprobs=0)["choices"][0]["logprobs"]
        assert [list(top) for top in none["top_logprobs"]] == [["h"], [""], ["é"], ["!"]]


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_with_log_probabilities_tells_the_prompts_tokens_too(stream: bool) -> None:
    class Opened(ScriptTokenizer):
        opening_ids = (256,)

    with stand(ScriptPair(says("é!"), tokenizer=Opened())) as served:
        asked: Any = {"prompt": ["aé", [98]], "n": 2, "echo": True, "logprobs": 1}
        if stream:
            body = chunks(served.http.post("/v1/completions", json=asked | {"stream": True}))
        else:
            body = [complete(served, **asked)]
        choices: list[dict[str, Any]] = [{"text": "", "tokens": [], "token_logprobs": []} for _ in range(4)]
        for choice in (each for chunk in body for each in chunk["choices"]):
            own, told = choices[choice["index"]], choice["logprobs"]
            own["text"] += choice["text"]
            for name in ("tokens", "token_logprobs"):
                own[name] += told[name] if told else []
            assert told is None or [top is None for top in told["top_logprobs"]] == [
                each is None for each in told["token_logprobs"]
            ]
    answer = ["", "é", "!"], [-195 / 64, -169 / 64, -33 / 64]
    first = {
        "text": "aéé!",
        "tokens": ["", "a", "", "é", *answer[0]],
        "token_logprobs": [None, -97 / 64, -195 / 64, -169 / 64, *answer[1]],
    }
    second = {"text": "bé!", "tokens": ["b", *answer[0]], "token_logprobs": [None, *answer[1]]}
    assert choices == [first, first, second, second]
    assert sum(request.prompt_logprobs is not None for request in served.pair.requests) == 2


def test_the_opening_token_is_put_before_text_unless_it_is_there_or_not_wanted() -> None:
    class Opened(ScriptTokenizer):
        opening_ids = (256,)

    pair = ScriptPair(says("x"), tokenizer=Opened())
    with stand(pair) as served:
        for prompt in ("ab", "<think>ab", [97, 98], ["<tool_call>"]):
            complete(served, prompt=prompt)
        complete(served, prompt="ab", add_special_tokens=False)
        assert complete(served, prompt="ab", echo=True)["choices"][0]["text"] == "abx"
    assert pair.prompts == ["<think>ab", "<think>ab", "ab", "<think><tool_call>", "ab", "<think>ab"]


@pytest.mark.parametrize(
    ("wrong", "param", "code"),
    [
        ({"prompt": ""}, "prompt", "invalid_value"),
        ({"prompt": []}, "prompt", "invalid_value"),
        ({"prompt": [[]]}, "prompt", "invalid_value"),
        ({"prompt": ["a", ""]}, "prompt", "invalid_value"),
        ({}, "prompt", "missing_required_parameter"),
        ({"prompt": None}, "prompt", "missing_required_parameter"),
        ({"prompt": 7}, "prompt", "invalid_type"),
        ({"prompt": {"a": 1}}, "prompt", "invalid_type"),
        ({"prompt": [True]}, "prompt", "invalid_type"),
        ({"prompt": [1, "a"]}, "prompt", "invalid_type"),
        ({"prompt": [[1], [1.5]]}, "prompt", "invalid_type"),
        ({"prompt": [EOS + 1]}, "prompt", "invalid_value"),
        ({"prompt": [-1]}, "prompt", "invalid_value"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "unsupported_parameter"),
        ({"prompt": "a", "best_of": 2}, "best_of", "unsupported_parameter"),
        ({"prompt": "a", "logprobs": 6}, "logprobs", "invalid_value"),
        ({"prompt": "a", "logprobs": True}, "logprobs", "invalid_type"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"prompt": "a", "min_tokens": 17}, "min_tokens", "invalid_value"),
        ({"prompt": "a", "n": 9}, "n", "invalid_value"),
        ({"prompt": ["a"] * 9, "n": 8}, "prompt", "invalid_value"),
        ({"prompt": "a", "stream_options": {}}, "stream_options", "invalid_value"),
        ({"prompt": "a", "logit_bias": {"9999": 1}}, "logit_bias", "invalid_value"),
        ({"prompt": "a" * 5000}, "prompt", "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_is_refused_by_name(
    served: Stand, wrong: dict[str, Any], param: str, code: str, stream: bool
) -> None:
    if "stream_options" in wrong and stream:
        return
    response = served.http.post("/v1/completions", json=wrong | {"stream": stream})
    error = refused(response)
    assert (response.status_code, error["param"], error["code"]) == (400, param, code)
    assert served.engine.health.running == served.engine.health.waiting == 0


def test_nulls_are_absent_and_unknown_fields_are_named_in_the_header(served: Stand) -> None:
    nothing = dict.fromkeys(("suffix", "echo", "logprobs", "n", "best_of", "stop", "max_tokens", "logit_bias"))
    response = served.http.post("/completions", json={"prompt": "ab", "user": "me", "use_beam_search": False} | nothing)
    assert response.json()["choices"][0]["text"] == "ba"
    assert response.headers[IGNORED] == "use_beam_search"


def test_a_client_that_leaves_a_stream_of_many_prompts_frees_all_slots() -> None:
    with stand(ScriptPair(forever, pace=0.005), concurrency=2) as served:
        asked = {"prompt": ["a", "b", "c"], "n": 2, "max_tokens": 4000, "stream": True}
        with served.http.stream("POST", "/v1/completions", json=asked) as response:
            next(response.iter_text())
            assert served.pair.sessions > 0
        served.wait_until(lambda: served.engine.health.running == served.engine.health.waiting == 0)
        served.wait_until(lambda: served.pair.sessions == 0)


def test_the_sdk_reads_it_whole_and_streamed_and_raises_what_is_refused(served: Stand) -> None:
    create = served.sdk.completions.create
    whole = create(model=MODEL, prompt=["abc", "de"], n=2, logprobs=1, seed=3)
    assert [choice.text for choice in whole.choices] == ["cba", "cba", "ed", "ed"]
    assert all(choice.logprobs and "".join(choice.logprobs.tokens or []) == choice.text for choice in whole.choices)
    joined = [""] * 4
    for chunk in create(model=MODEL, prompt=["abc", "de"], n=2, stream=True, seed=3):
        joined[chunk.choices[0].index] += chunk.choices[0].text
    assert joined == ["cba", "cba", "ed", "ed"]
    with pytest.raises(openai.BadRequestError) as wrong:
        create(model=MODEL, prompt="a", suffix="b")
    assert wrong.value.param == "suffix"
    with pytest.raises(openai.NotFoundError):
        create(model="other", prompt="a")


def test_a_failure_in_mid_stream_is_raised_by_the_sdk() -> None:
    with (
        stand(ScriptPair(lambda _: [ids_of("ab"), RuntimeError("no")])) as served,
        pytest.raises(openai.APIError, match="RuntimeError"),
    ):
        list(served.sdk.completions.create(model=MODEL, prompt="a", stream=True))
