"""A raw argument is any text without its closing tag, whatever the text spells of it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.reading import read, tool
from tests.tools.walking import accepts
from tools.grammar import Calls, grammar
from tools.laguna import fold

END = "</arg_value>"
TOOL = tool("f", {"a": {"type": "string"}}, ["a"])
GRAMMAR = grammar(thinking=False, calls=Calls([TOOL], required=True))
FRAGMENTS = [
    "<",
    "</",
    "</arg",
    "_value",
    ">",
    "</arg_value",
    END,
    "<arg_key>",
    "</x>",
    "a",
    "/",
    " <",
    "\n",
    "é",
    '"',
    "{",
]


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=7).map("".join) | st.text(max_size=6))
def test_every_text_without_the_tag_is_let_through_and_read_back_to_the_letter(text: str) -> None:
    called = f"<tool_call>f<arg_key>a</arg_key><arg_value>{text}{END}</tool_call>"
    assert accepts(GRAMMAR, called) == (END not in text)
    if END not in text:
        (call,) = fold(read([called], [TOOL])).calls
        assert json.loads(call.arguments) == {"a": text}
