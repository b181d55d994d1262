from typing import Any

import pytest

from tests.bench.agent.conversation import TURNS, requests, script
from tests.bench.agent.reckoning import Asked, Past, came_to, common
from tests.bench.client import Body


def test_a_conversation_has_turns_results_an_edit_and_a_fork_and_ends_in_its_middle() -> None:
    kinds, lengths = list[str](), list[int]()

    def answer(kind: str, body: Body) -> dict[str, Any]:
        kinds.append(kind)
        lengths.append(len(body["messages"]))
        return {"role": "assistant", "content": "fine"}

    told = requests(script("x", 400))
    told.play(answer)
    assert kinds.count("turn") == TURNS // 2
    assert kinds.count("result") == TURNS // 2 - 1
    assert kinds[-1] == "fork"
    assert kinds.count("edit") == 1
    assert lengths[:-1] == sorted(lengths[:-1])
    assert lengths[-1] < lengths[-2]
    assert len(told.script.tools) == 24


def test_a_call_in_an_answer_gets_a_result_and_another_answer() -> None:
    seen: list[list[dict[str, Any]]] = []

    def answer(_: str, body: Body) -> dict[str, Any]:
        seen.append(list(body["messages"]))
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return {"role": "assistant", "content": "", "tool_calls": [call]} if len(seen) == 1 else {"role": "assistant"}

    requests(script("y", 100)).play(answer)
    assert seen[1][-1]["role"] == "tool"
    assert seen[1][-1]["tool_call_id"] == "c"


def test_what_could_be_cached_is_the_longest_beginning_of_any_earlier_timeline() -> None:
    past = Past(lambda body, after: [*body["ids"], *(i for message in after for i in message["ids"])])
    assert past.ideal({"ids": [1, 2, 3]}) == (3, 0)
    past.add({"ids": [1, 2, 3]}, {"ids": [4, 5]})
    assert past.ideal({"ids": [1, 2, 3, 4, 5, 6]}) == (6, 5)
    assert past.ideal({"ids": [1, 2, 3]}) == (3, 2)
    assert past.ideal({"ids": [1, 9]}) == (2, 1)
    assert common([1, 2], [1, 2, 3]) == 2


def test_a_trace_comes_to_shares_of_tokens_and_medians_of_times() -> None:
    figures = came_to(
        [
            Asked("turn", 100, 0, 0, 9.0, 9.0),
            Asked("turn", 120, 100, 90, 1.0, 10.0),
            Asked("edit", 150, 100, 60, 3.0, 10.0),
            Asked("turn", 180, 100, 100, 5.0),
        ]
    )
    assert figures["reuse"] == pytest.approx(250 / 300)
    assert figures["reuse_by_kind"] == pytest.approx({"turn": 0.95, "edit": 0.6})
    assert figures["warm_over_cold"] == pytest.approx(0.2)
    assert figures["warm_seconds"] == 3.0
    assert "warm_over_cold" not in came_to([Asked("turn", 9, 0, 0, 1.0), Asked("turn", 9, 8, 8, 1.0)])
