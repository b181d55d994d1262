"""Who wrote each token: told where it is asked for, the same streamed and whole, and nowhere else."""

import json
from typing import Any

import pytest

from models.decode.acceptance import Record
from models.decode.batch import Update
from models.decode.session import Request, Sampling, Session
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand

CALL = "<tool_call>f<arg_key>s</arg_key><arg_value>ab</arg_value></tool_call>"
ANSWER = f"hm</think>\n\nYes.\n{CALL}"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}}}}}
ASKED: dict[str, Any] = {
    "tools": [TOOL],
    "chat_template_kwargs": {"enable_thinking": True},
    "laguna": {"tokens": True},
}


def chunks(told: Stand, **body: object) -> list[dict[str, Any]]:
    lines = told.post(**body, stream=True).text.splitlines()
    datas = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return [json.loads(data) for data in datas]


def tokens(told: list[dict[str, Any]]) -> list[list[str]]:
    """All that the chunks tell, in order."""
    return [token for chunk in told for token in chunk["choices"][0].get("laguna", {}).get("tokens", [])]


def spoken(choice: dict[str, Any]) -> str:
    return "".join(text for text, _ in choice.get("laguna", {"tokens": []})["tokens"])


def test_a_stream_tells_every_token_with_its_text_and_who_wrote_it() -> None:
    with stand(ScriptPair(says(ANSWER, block=4), drafter="speculator")) as told:
        came = chunks(told, **ASKED)
    texts = {"reasoning_content": "", "content": "", "call": ""}
    for chunk in came:
        choice = chunk["choices"][0]
        kind = next((kind for kind in texts if choice["delta"].get(kind)), "call")
        texts[kind] += spoken(choice)
        if kind != "call":
            assert spoken(choice) == choice["delta"][kind]
    assert texts["reasoning_content"] == "hm"
    assert texts["content"] == "\n\nYes.\n"
    assert texts["call"] == CALL


def test_the_last_id_of_a_block_is_the_targets_own_and_those_before_it_are_the_drafters() -> None:
    with stand(ScriptPair(says("abcdefgh", block=4), drafter="prediction")) as told:
        assert tokens(chunks(told, laguna={"tokens": True})) == [
            *(["a", "prediction"], ["b", "prediction"], ["c", "prediction"], ["d", "target"]),
            *(["e", "prediction"], ["f", "prediction"], ["g", "prediction"], ["h", "target"]),
        ]


@pytest.mark.parametrize("answer", [ANSWER, "äö😀 and", "<tool_call>f broken", f"{CALL} and\n{CALL}"])
def test_a_whole_answer_tells_what_its_stream_tells(answer: str) -> None:
    with stand(ScriptPair(says(answer, block=3), drafter="copy")) as told:
        streamed, whole = tokens(chunks(told, **ASKED)), told.post(**ASKED).json()["choices"][0]
    assert whole["laguna"]["tokens"] == streamed
    assert {writer for _, writer in streamed} == {"copy", "target"}


def test_it_is_told_beside_log_probabilities_and_changes_none() -> None:
    with stand(ScriptPair(says(ANSWER), drafter="speculator")) as told:
        plain = told.post(**ASKED | {"laguna": None}, logprobs=True).json()["choices"][0]
        both = told.post(**ASKED, logprobs=True).json()["choices"][0]
    assert both["logprobs"] == plain["logprobs"]
    assert both["message"]["content"] == plain["message"]["content"]
    assert "laguna" not in plain


@pytest.mark.parametrize("laguna", [None, {}, {"tokens": False}])
def test_nothing_is_told_where_nothing_was_asked(laguna: object) -> None:
    with stand(ScriptPair(says(ANSWER), drafter="speculator")) as told:
        assert tokens(chunks(told, **ASKED | {"laguna": laguna})) == []


def test_a_name_that_is_not_known_there_is_refused() -> None:
    with stand(ScriptPair(says("a"))) as told:
        refused = told.post(laguna={"tokn": True})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "laguna.tokn"


def test_the_report_counts_drafts_by_depth_and_choices_are_summed() -> None:
    with stand(ScriptPair(says("abcdefgh", block=4), drafter="speculator")) as told:
        one = told.post().json()["laguna"]
        two = told.post(n=2).json()["laguna"]
    assert (one["drafted_by_depth"], one["accepted_by_depth"]) == ([2, 2, 2, 2], [2, 2, 2, 0])
    assert (two["drafted_by_depth"], two["accepted_by_depth"]) == ([4, 4, 4, 4], [4, 4, 4, 0])


def test_without_drafts_every_id_is_the_targets() -> None:
    session = Session(Request((1,), Sampling(), 4, frozenset()), record=Record(), speculation_off=None)
    assert Update(session, (1, 2)).writers == ("target", "target")
    assert Update(session, (1, 2, 3), source="copy", accepted=2).writers == ("copy", "copy", "target")
    assert Update(session, (1, 2), source="copy", accepted=2).writers == ("copy", "copy")
