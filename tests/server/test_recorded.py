"""Every recorded text, from the ids of a block to the chunks of a stream and the body of an answer."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.script import Round, ScriptPair, ids_of
from tests.server.stand import Stand, stand
from tests.server.wire import chunks, folded
from tests.tools.reading import Case, cases

CASES = {case.name: case for case in cases() if all("function" in tool for tool in case.tools)}


def recited(prompt: str) -> Iterator[Round]:
    """The text of the case that the user names, in blocks that are cut differently for each seed of the dice."""
    found = re.search(r"<user>(\S+) (\d+)", prompt)
    assert found
    ids, dice, start = ids_of(CASES[found[1]].text), random.Random(found[2]), 0
    while start < len(ids):
        stop = start + dice.randint(1, 16)
        yield ids[start:stop]
        start = stop


@pytest.fixture(scope="module")
def served() -> Iterator[Stand]:
    with stand(ScriptPair(recited, context_length=100_000)) as running:
        yield running


def body(case: Case, dice: int) -> dict[str, Any]:
    """The request that the case is the answer to."""
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": f"{case.name} {dice}"}],
        "chat_template_kwargs": {"enable_thinking": case.thinking},
    }
    if case.end == "length":
        asked["max_tokens"] = len(ids_of(case.text))
    return asked | {"tools": case.tools} | ({"stop": case.stop} if case.stop else {})


def whole(calls: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The calls that a client can run; what a cut or broken one streamed is no JSON object."""
    read = []
    for call in calls:
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            continue
        read.append({"name": call["name"], "arguments": arguments})
    return read


def as_recorded(message: dict[str, Any], finish: str) -> dict[str, Any]:
    return {
        "reasoning": message.get("reasoning_content") or None,
        "content": message["content"] or None,
        "calls": message["tool_calls"],
        "finish": finish,
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_case_is_answered_right_streamed_and_not(served: Stand, case: Case) -> None:
    for dice in range(2):
        stream = chunks(served.post(stream=True, **body(case, dice)))
        message = folded(stream)
        message["tool_calls"] = whole(message["tool_calls"])
        assert as_recorded(message, stream[-1]["choices"][0]["finish_reason"]) == case.expected
    (choice,) = served.post(**body(case, 2)).json()["choices"]
    made = [call["function"] for call in choice["message"].get("tool_calls", [])]
    assert len(whole(made)) == len(made)
    assert as_recorded(choice["message"] | {"tool_calls": whole(made)}, choice["finish_reason"]) == case.expected
