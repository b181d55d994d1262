"""Every recorded case holds, whole and however it is cut."""

import json

import pytest

from tests.tools.reading import Case, cases, cuts, read
from tools.laguna import finish_reason, fold


def _seen(case: Case, chunks: list[str]) -> dict[str, object]:
    message = fold(read(chunks, case.tools, thinking=case.thinking, end=case.end, stop=case.stop))
    return {
        "reasoning": message.reasoning,
        "content": message.content,
        "calls": [{"name": call.name, "arguments": json.loads(call.arguments)} for call in message.calls],
        "finish": finish_reason(case.end, len(message.calls)),
    }


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_case_is_read_right(case: Case) -> None:
    assert _seen(case, [case.text]) == case.expected


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_no_cut_changes_what_is_read(case: Case) -> None:
    whole = read([case.text], case.tools, thinking=case.thinking, end=case.end, stop=case.stop)
    for chunks in cuts(case.text):
        assert "".join(chunks) == case.text
        assert read(chunks, case.tools, thinking=case.thinking, end=case.end, stop=case.stop) == whole, chunks


def test_the_cases_have_names_of_their_own() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len(set(names))
