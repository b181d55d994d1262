"""Text to ids and back, in the shapes of vLLM and llama.cpp, and the prompt that a conversation becomes."""

from collections.abc import Iterator
from typing import Any

import pytest

from server.api.parameters import IGNORED
from tests.server.script import EOS, ScriptPair, ScriptTokenizer, ids_of, says
from tests.server.stand import Stand, stand
from tests.server.wire import refused

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"properties": {}}}}


class Opened(ScriptTokenizer):
    opening_ids = (260,)


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(says("x"), tokenizer=Opened())) as running:
        yield running


def told(served: Stand, path: str, **body: object) -> dict[str, Any]:
    response = served.http.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_text_becomes_ids_and_ids_become_text(served: Stand, prefix: str) -> None:
    ids = list(ids_of("hé<think>"))
    assert told(served, f"{prefix}/tokenize", content="hé<think>") == {
        "count": 4,
        "max_model_len": 4096,
        "tokens": ids,
    }
    assert told(served, f"{prefix}/detokenize", tokens=ids) == {"prompt": "hé<think>", "content": "hé<think>"}
    assert told(served, f"{prefix}/detokenize", tokens=[*ids[:2], 97])["content"] == "h\ufffda"
    assert told(served, f"{prefix}/detokenize", tokens=[])["content"] == ""


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ({"prompt": "a"}, True),
        ({"prompt": "a", "add_special_tokens": False}, False),
        ({"content": "a"}, False),
        ({"content": "a", "add_special": True, "parse_special": True}, True),
        ({"text": "a"}, False),
        ({"text": "a", "add_special_tokens": True}, True),
    ],
)
def test_each_servers_own_default_says_whether_text_is_opened(
    served: Stand, asked: dict[str, object], opened: bool
) -> None:
    assert told(served, "/tokenize", **asked)["tokens"] == [*([260] if opened else []), 97]


def test_messages_become_what_a_chat_would_read(served: Stand) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], "chat_template_kwargs": {"a": 1}}
    counted = told(served, "/tokenize", **asked)
    answer = served.http.post("/v1/chat/completions", json=asked).json()
    assert counted["count"] == answer["usage"]["prompt_tokens"]
    assert tuple(counted["tokens"]) == served.pair.requests[-1].prompt
    thinking = told(served, "/tokenize", **asked, reasoning_effort="high")
    assert thinking["count"] == counted["count"] + 1
    without = told(served, "/tokenize", **asked, tool_choice="none")
    assert "tool add" not in told(served, "/detokenize", tokens=without["tokens"])["content"]


def test_pieces_are_text_or_the_bytes_of_a_part_of_a_character(served: Stand) -> None:
    body = told(served, "/tokenize", content="aé", with_pieces=True, return_token_strs=True)
    assert body["tokens"] == [{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]
    assert body["token_strs"] == ["a", "\ufffd", "\ufffd"]


def test_a_prompt_may_be_longer_than_the_context(served: Stand) -> None:
    assert told(served, "/tokenize", content="a" * 5000)["count"] == 5000


@pytest.mark.parametrize(
    ("path", "wrong", "param", "status"),
    [
        ("/tokenize", {}, "prompt", 400),
        ("/tokenize", {"prompt": 7}, "prompt", 400),
        ("/tokenize", {"prompt": "a", "content": "b"}, "prompt", 400),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt", 400),
        ("/tokenize", {"messages": []}, "messages", 400),
        ("/tokenize", {"messages": [{"role": "user", "content": 7}]}, "messages[0].content", 400),
        ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "modalities": ["x"]}, "modalities", 400),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt", 400),
        ("/tokenize", {"content": "a", "parse_special": False}, "parse_special", 400),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model", 404),
        ("/detokenize", {}, "tokens", 400),
        ("/detokenize", {"tokens": "a"}, "tokens", 400),
        ("/detokenize", {"tokens": [True]}, "tokens[0]", 400),
        ("/detokenize", {"tokens": [EOS + 1]}, "tokens", 400),
        ("/detokenize", {"tokens": [-1]}, "tokens", 400),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    served: Stand, path: str, wrong: dict[str, Any], param: str, status: int
) -> None:
    response = served.http.post(path, json=wrong)
    assert (response.status_code, refused(response)["param"]) == (status, param)


def test_unknown_fields_are_named(served: Stand) -> None:
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
        assert served.http.post(path, json=body | {"zzz": 1}).headers[IGNORED] == "zzz"
    chat = {"messages": [{"role": "user", "content": "a"}], "user": "me", "zzz": 1}
    assert served.http.post("/tokenize", json=chat).headers[IGNORED] == "zzz"
