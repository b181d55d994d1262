"""Vocabulary, ends and template: sound, doubtful, broken."""

from pathlib import Path

import pytest

from tests.doctor.conftest import IDS, Copied, changed, examined, told
from tests.runtime.checkpoint_files import ONE_LINE, WITH_NEWLINES, write_tokenizer


def templated(folder: Path, template: str) -> Path:
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder


@pytest.mark.parametrize("template", [ONE_LINE, WITH_NEWLINES])
def test_both_dialects_are_shown_and_read_back(copied: Copied, template: str) -> None:
    findings = examined(templated(copied(), template))
    for area in ("template", "thinking", "tools", "dialect"):
        assert told(findings, area)[0] == "ok", area


@pytest.mark.parametrize(("default", "word"), [(True, "on"), (False, "off")])
def test_the_thinking_default_is_the_checkpoints(copied: Copied, default: bool, word: str) -> None:
    folder = copied()
    changed(folder / "generation_config.json", default_chat_template_kwargs={"enable_thinking": default})
    assert told(examined(folder), "thinking") == ("ok", f"can be chosen; {word} where a request does not say -> ")


def test_a_template_that_always_thinks_is_a_warning(copied: Copied) -> None:
    stuck = ONE_LINE.replace("enable_thinking | default(false)", "true")
    level, said = told(examined(templated(copied(), stuck)), "thinking")
    assert level == "warn"
    assert "thinking is always on" in said


@pytest.mark.parametrize(
    ("template", "area", "said"),
    [
        ("{% if %}", "tokenizer", "does not compile"),
        ("{{ messages[7].content.x }}", "template", "the chat template failed"),
        ("{{ messages[0].content }}", "template", "not a Laguna template"),
        (ONE_LINE.replace("{%- if tools -%}", "{%- if false -%}"), "tools", "leaves tools out"),
        (ONE_LINE.replace('"<tool_call>" +', '"<call>" +'), "dialect", "not written in Laguna's dialect"),
        (ONE_LINE.replace("_args.items()", "_args.things()"), "dialect", "the chat template failed"),
    ],
)
def test_a_template_that_will_not_do_fails(copied: Copied, template: str, area: str, said: str) -> None:
    level, text = told(examined(templated(copied(), template)), area)
    assert level == "fail"
    assert said in text


def test_an_opening_token_written_twice_is_a_warning(copied: Copied) -> None:
    twice = ONE_LINE.replace('{{- "〈|EOS|〉" -}}', '{{- "〈|EOS|〉〈|EOS|〉" -}}')
    level, said = told(examined(templated(copied(), twice)), "template")
    assert level == "warn"
    assert f"begins with token {IDS['〈|EOS|〉']} twice" in said


def test_a_parser_that_the_files_name_changes_nothing_and_is_told(copied: Copied) -> None:
    folder = copied()
    changed(folder / "tokenizer_config.json", tool_parser_type="glm47")
    level, said = told(examined(folder), "dialect")
    assert level == "ok"
    assert "tool_parser_type 'glm47' changes nothing" in said


def test_the_ends_are_listed_and_what_the_configs_leave_out_is_said(copied: Copied) -> None:
    folder = copied()
    for name in ("config.json", "generation_config.json"):
        changed(folder / name, eos_token_id=IDS["〈|EOS|〉"])
    level, said = told(examined(folder), "ends")
    assert level == "ok"
    assert f"{IDS['〈|EOS|〉']} 〈|EOS|〉, {IDS['</assistant>']} </assistant>" in said
    assert "the configs leave out </assistant>" in said


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([350, IDS["</assistant>"]], "350 is not in the vocabulary"),
        ([IDS["5"], IDS["</assistant>"]], f"a turn ends at {IDS['5']} ('5'), which is ordinary text"),
    ],
)
def test_an_end_that_never_comes_or_comes_too_soon_is_a_warning(copied: Copied, ids: list[int], said: str) -> None:
    folder = copied()
    changed(folder / "generation_config.json", eos_token_id=ids)
    level, text = told(examined(folder), "ends")
    assert level == "warn"
    assert said in text


def test_markers_of_several_tokens_are_a_warning(copied: Copied) -> None:
    folder = copied()
    text = (folder / "tokenizer.json").read_text("utf-8")
    (folder / "tokenizer.json").write_text(text.replace('"<tool_call>"', '"<a_tool>"'), "utf-8")
    level, said = told(examined(folder), "tokenizer")
    assert level == "warn"
    assert "<tool_call>: several tokens" in said
    (folder / "tokenizer.json").write_text(text.replace('"</assistant>"', '"</helper>"'), "utf-8")
    assert told(examined(folder), "ends")[0] == "warn"


def test_a_vocabulary_wider_than_the_network_fails(tmp_path: Path, copied: Copied) -> None:
    folder = copied()
    changed(folder / "config.json", vocab_size=97)
    level, said = told(examined(folder), "tokenizer")
    assert level == "fail"
    assert "the network knows only 97" in said


@pytest.mark.parametrize(
    ("file", "content", "area"),
    [
        ("generation_config.json", "{", "generation"),
        ("generation_config.json", '{"temperature": "hot"}', "generation"),
        ("tokenizer.json", "{", "tokenizer"),
        ("tokenizer.json", '{"decoder": {"type": "ByteLevel"}}', "tokenizer"),
        ("tokenizer_config.json", '{"chat_template": [7]}', "template"),
        ("tokenizer_config.json", "[]", "tokenizer"),
        ("config.json", "{", "target"),
        ("config.json", '{"architectures": 5}', "target"),
        ("config.json", '{"architectures": ["LagunaForCausalLM"], "num_hidden_layers": {}}', "target"),
        ("speculator/config.json", "[]", "speculator"),
    ],
)
def test_a_damaged_file_is_one_finding_and_never_an_exception(
    copied: Copied, file: str, content: str, area: str
) -> None:
    folder = copied()
    (folder / file).write_text(content)
    findings = examined(folder)
    if area != "template":
        assert told(findings, area)[0] == "fail"
        assert len([finding for finding in findings if finding.level == "fail"]) == 1
    assert told(findings, "versions")[0] == "ok"


def test_a_template_only_in_the_tokenizers_config_counts(copied: Copied) -> None:
    folder = copied()
    (folder / "chat_template.jinja").unlink()
    write_tokenizer(folder, template=None, chat_template=ONE_LINE)
    assert told(examined(folder), "template")[0] == "ok"
    write_tokenizer(folder, template=None)
    assert "has no chat template" in told(examined(folder), "tokenizer")[1]
