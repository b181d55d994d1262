"""The body of an answer that is not streamed, and what the rendered prompt says of how it begins."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.server.script import ScriptPair, ScriptTokenizer, ids_of, says
from tests.server.stand import Stand, stand

PING = {"type": "function", "function": {"name": "ping"}}


class ThinksUnlessTold(ScriptTokenizer):
    """A template that opens the thinking by itself, whatever the server's flags are."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> str:
        return super().render(messages, tools, **{"enable_thinking": True} | template_kwargs)


def choice(served: Stand, **body: object) -> dict[str, Any]:
    (only,) = served.post(**body).json()["choices"]
    return only


def test_an_answer_has_every_key_that_clients_rely_on() -> None:
    with stand(ScriptPair(says("fine"))) as served:
        response = served.post()
        assert response.headers["content-type"] == "application/json"
        answer = response.json()
    assert answer["object"] == "chat.completion"
    assert type(answer["created"]) is int
    assert answer["id"].startswith("chatcmpl-")
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "fine", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@pytest.mark.parametrize("content", ["fire", [{"type": "text", "text": "fi"}, {"type": "text", "text": "re"}]])
def test_predicted_tokens_are_counted_as_those_that_came_and_those_that_did_not(content: object) -> None:
    with stand(ScriptPair(says("fine"))) as served:
        answer = served.post(prediction={"type": "content", "content": content}).json()
        (request,) = served.pair.requests
    assert answer["choices"][0]["message"]["content"] == "fine"
    assert request.prediction == tuple(ids_of("fire"))
    usage, details = answer["usage"], answer["usage"]["completion_tokens_details"]
    assert (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]) == (2, 2)
    # As OpenAI counts them: what was predicted in vain is in the completion's tokens, too.
    assert (usage["completion_tokens"], usage["total_tokens"]) == (4 + 2, usage["prompt_tokens"] + 4 + 2)


def test_a_prediction_waits_for_the_answer_behind_the_thinking() -> None:
    with stand(ScriptPair(says("hm</think>fine"))) as served:
        kwargs = {"enable_thinking": True}
        answer = served.post(prediction={"type": "content", "content": "fine"}, chat_template_kwargs=kwargs).json()
    details = answer["usage"]["completion_tokens_details"]
    assert (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]) == (4, 0)
    assert answer["choices"][0]["message"]["content"] == "fine"


@pytest.mark.parametrize(("text", "content"), [("", ""), ("<think>hm", ""), ("<tool_call>ping</tool_call>", None)])
def test_content_is_null_beside_calls_alone(text: str, content: str | None) -> None:
    with stand(ScriptPair(says(text))) as served:
        assert choice(served, tools=[PING])["message"]["content"] == content


def test_whether_thinking_is_open_is_read_off_the_prompt_and_not_off_a_flag() -> None:
    with stand(ScriptPair(says("hm</think>ok"), tokenizer=ThinksUnlessTold())) as served:
        asked = {"messages": [{"role": "user", "content": "What does </think> mean?"}]}
        message = choice(served, **asked)["message"]
        assert (message["reasoning_content"], message["content"]) == ("hm", "ok")
        assert choice(served, reasoning_effort="none", **asked)["message"]["content"] == "hmok"


def test_a_flag_that_the_template_does_not_know_opens_nothing() -> None:
    class NeverThinks(ScriptTokenizer):
        def render(
            self,
            messages: Sequence[Mapping[str, Any]],
            tools: Sequence[Mapping[str, Any]] | None = None,
            **template_kwargs: object,
        ) -> str:
            return super().render(messages, tools)

    with stand(ScriptPair(says("plain"), tokenizer=NeverThinks())) as served:
        message = choice(served, reasoning_effort="high")["message"]
        assert message["content"] == "plain"
        assert "reasoning_content" not in message
