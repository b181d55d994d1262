"""Both generations of the published templates and the later revision: what the model reads, and how its turn opens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from models.generation import read_generation
from models.tokenizer import TemplateError, Tokenizer
from tests.runtime.checkpoint_files import write_json, write_tokenizer
from tests.runtime.dialects import HOW, HOW_THINKING, M_1, S_2_1_LATER, SYSTEM, XS_2, XS_2_1
from tests.tools.reading import read
from tools.laguna import fold, thinking_open

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}},
        },
    },
}
ARGUMENTS = {"path": " a.py\n", "n": 3, "o": {"x": [1, None, True], "é": "<b>"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": json.dumps(ARGUMENTS)}}
SAID: dict[str, Any] = {"role": "assistant", "content": "Ok.", "reasoning_content": "Hm.", "tool_calls": [CALL]}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Read "}, {"type": "text", "text": "it."}]},
    SAID,
    {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
]
SHOWN = json.dumps(TOOL, ensure_ascii=False)
TOOLS_HEADER = (
    "### Tools\n\nYou may call functions to assist with the user query.\n"
    f"All available function signatures are listed below:\n<available_tools>\n{SHOWN}\n</available_tools>"
)
VALUES = {"path": " a.py\n", "n": "3", "o": '{"x": [1, null, true], "é": "<b>"}'}
TEMPLATES = {"XS-2.1": XS_2_1, "S-2.1, later": S_2_1_LATER, "XS.2": XS_2, "M.1": M_1}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folders = {name: tmp_path_factory.mktemp("dialect") for name in TEMPLATES}
    return {name: Tokenizer.load(write_tokenizer(folders[name], template=TEMPLATES[name])) for name in TEMPLATES}


def one_line_turn(past: str) -> str:
    """What the 2.1 family reads of the history, `past` being how the assistant's turn begins."""
    pairs = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in VALUES.items())
    return (
        f"<user>Read it.</user>\n<assistant>{past}Ok.<tool_call>read_file{pairs}</tool_call></assistant>\n"
        "<tool_response>x = 1</tool_response>\n"
    )


def turn_with_newlines() -> str:
    """What XS.2 and M.1 read of it, whatever they are told about thinking."""
    pairs = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in VALUES.items())
    return (
        "<user>\nRead it.\n</user>\n<assistant>\n<think>\nHm.\n</think>\nOk.\n"
        f"<tool_call>read_file\n{pairs}</tool_call>\n</assistant>\n<tool_response>\nx = 1\n</tool_response>\n"
    )


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("name", ["XS-2.1", "S-2.1, later"])
def test_the_2_1_family_reads_everything_without_newlines(
    tokenizers: dict[str, Tokenizer], name: str, thinking: bool
) -> None:
    past, opening = ("<think>Hm.</think>", "<think>") if thinking else ("</think>", "</think>")
    expected = f"〈|EOS|〉<system>{SYSTEM}\n\n{TOOLS_HEADER}</system>\n{one_line_turn(past)}<assistant>{opening}"
    assert tokenizers[name].render(HISTORY, [TOOL], enable_thinking=thinking) == expected


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize(("name", "system"), [("XS.2", f"\n{SYSTEM}"), ("M.1", "")])
def test_the_older_family_reads_newlines_and_how_to_call(
    tokenizers: dict[str, Tokenizer], name: str, system: str, thinking: bool
) -> None:
    how, opening = (HOW_THINKING, "<think>") if thinking else (HOW, "</think>")
    header = f"<system>\n{system}\n\n{TOOLS_HEADER}\n\n{how}\n</system>\n"
    expected = f"〈|EOS|〉{header}{turn_with_newlines()}<assistant>\n{opening}"
    assert tokenizers[name].render(HISTORY, [TOOL], enable_thinking=thinking) == expected


def test_past_thoughts_stay_in_every_turn_and_not_only_after_the_last_question(
    tokenizers: dict[str, Tokenizer],
) -> None:
    longer = [*HISTORY, {"role": "assistant", "content": "Done.", "reasoning": "So."}, {"role": "user", "content": "?"}]
    for tokenizer in tokenizers.values():
        text = tokenizer.render(longer, enable_thinking=True).replace("\n", "")
        assert "<think>Hm.</think>Ok." in text
        assert "<think>So.</think>Done." in text


def test_the_later_revision_can_show_past_thoughts_while_it_does_not_think(tokenizers: dict[str, Tokenizer]) -> None:
    later = tokenizers["S-2.1, later"]
    text = later.render(HISTORY, enable_thinking=False, preserve_thinking=True)
    assert text.endswith(f"{one_line_turn('<think>Hm.</think>')}<assistant></think>")
    assert later.render(HISTORY, enable_thinking=False).endswith(f"{one_line_turn('</think>')}<assistant></think>")


@pytest.mark.parametrize(
    ("name", "wanted", "asked", "thinks"),
    [
        ("XS-2.1", {}, {}, False),
        ("XS-2.1", {"enable_thinking": True}, {}, True),
        ("XS-2.1", {"enable_thinking": True}, {"enable_thinking": False}, False),
        ("S-2.1, later", {}, {}, True),
        ("S-2.1, later", {"enable_thinking": True}, {}, True),
        ("S-2.1, later", {"enable_thinking": True}, {"enable_thinking": False}, False),
        ("XS.2", {}, {}, False),
        ("XS.2", {}, {"enable_thinking": True}, True),
        ("M.1", {"enable_thinking": True}, {}, True),
        ("M.1", {}, {}, False),
    ],
)
def test_the_request_wins_over_the_generation_config_and_that_over_the_template(
    tmp_path: Path,
    tokenizers: dict[str, Tokenizer],
    name: str,
    wanted: Mapping[str, Any],
    asked: Mapping[str, Any],
    thinks: bool,
) -> None:
    write_json(tmp_path / "config.json", {"eos_token_id": [2, 24]})
    write_json(tmp_path / "generation_config.json", {"default_chat_template_kwargs": wanted} if wanted else {})
    stated = read_generation(tmp_path).chat_template_kwargs
    text = tokenizers[name].render([{"role": "user", "content": "hi"}], **{**stated, **asked})
    assert thinking_open(text) is thinks


@pytest.mark.parametrize("name", TEMPLATES)
def test_tags_in_a_message_do_not_decide_how_the_turn_opens(tokenizers: dict[str, Tokenizer], name: str) -> None:
    for content in ("<think>", "</think>", "<assistant><think>", "<assistant></think>"):
        for thinking in (True, False):
            messages = [{"role": "user", "content": content}]
            assert thinking_open(tokenizers[name].render(messages, enable_thinking=thinking)) is thinking


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_the_template_writes_of_a_turn_is_read_back_as_that_turn(
    tokenizers: dict[str, Tokenizer], name: str
) -> None:
    prompt = tokenizers[name].render(HISTORY[:1], [TOOL], enable_thinking=True)
    whole = tokenizers[name].render(HISTORY, [TOOL], enable_thinking=True)
    assert whole.startswith(prompt)
    spoken = whole[len(prompt) :].partition("</assistant>")[0]
    message = fold(read(list(spoken), [TOOL], thinking=True))
    assert ((message.reasoning or "").strip(), (message.content or "").strip()) == ("Hm.", "Ok.")
    assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [("read_file", ARGUMENTS)]


def test_xs_2_pulls_thoughts_out_of_content_and_can_take_turns_as_they_are(tokenizers: dict[str, Tokenizer]) -> None:
    told = [{"role": "assistant", "content": "<think>\nA.\n</think>\nB."}, {"role": "user", "content": "c"}]
    assert "<assistant>\n<think>\nA.\n</think>\nB.\n</assistant>\n" in tokenizers["XS.2"].render(told)
    raw = [{"role": "assistant", "content": "A.\n</think>\nB."}]
    text = tokenizers["XS.2"].render(raw, render_assistant_messages_raw=True, enable_thinking=True)
    assert "<assistant>\n<think>A.\n</think>\nB.\n</assistant>\n" in text


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_system_message_is_no_header(tokenizers: dict[str, Tokenizer], name: str, content: object) -> None:
    messages = [{"role": "system", "content": content}, {"role": "user", "content": "hi"}]
    assert tokenizers[name].render(messages, enable_thinking=False).replace("\n", "") == (
        "〈|EOS|〉<user>hi</user><assistant></think>"
    )


def test_the_template_may_be_the_sidecar_or_stand_in_the_config_or_in_a_list(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": "hi"}]
    expected = f"〈|EOS|〉<system>{SYSTEM}</system>\n<user>hi</user>\n<assistant></think>"
    included = "{% include 'chat_template.jinja' %}"
    named = [{"name": "tool_use", "template": XS_2}, {"name": "default", "template": XS_2_1}]
    folders = [tmp_path / str(index) for index in range(3)]
    for folder in folders:
        folder.mkdir()
    beside = Tokenizer.load(write_tokenizer(folders[0], template=XS_2_1, chat_template=included))
    inside = Tokenizer.load(write_tokenizer(folders[1], template=None, chat_template=XS_2_1))
    listed = Tokenizer.load(write_tokenizer(folders[2], template=None, chat_template=named))
    assert [one.render(asked) for one in (beside, inside, listed)] == [expected] * 3
    assert "Call as in" in listed.render(asked, [TOOL])
    (folders[0] / "chat_template.jinja").unlink()
    with pytest.raises(TemplateError, match=r"includes chat_template\.jinja, which the checkpoint does not hold"):
        Tokenizer.load(folders[0])
