"""The sandbox a checkpoint's template runs in, and where the template is found."""

from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from models.template import ChatTemplate
from models.tokenizer import TemplateError
from tests.runtime.checkpoint_files import ONE_LINE, WITH_NEWLINES

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Kurz. <b>ü</b>"},
    {"role": "user", "content": "x < y & 'z'"},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "Hm.",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": ["é", "</b>"], "s": "1"}}}],
    },
    {"role": "tool", "content": "ok"},
]
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "z": 1, "a": "<ü>"}}]


def rendered(source: str, **kwargs: object) -> str:
    return ChatTemplate(source, {}).render([], None, **kwargs)


@pytest.mark.parametrize("source", [ONE_LINE, WITH_NEWLINES])
@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("tools", [None, TOOLS])
def test_rendering_equals_transformers(source: str, thinking: bool, tools: list[dict[str, Any]] | None) -> None:
    theirs, _ = render_jinja_template(
        conversations=[CONVERSATION],
        tools=[*tools] if tools else None,
        chat_template=source,
        add_generation_prompt=True,
        enable_thinking=thinking,
    )
    assert ChatTemplate(source, {}).render(CONVERSATION, tools, enable_thinking=thinking) == theirs[0]


def test_what_a_generation_block_sets_stays_inside_it() -> None:
    source = "{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}"
    theirs, _ = render_jinja_template(conversations=[[]], chat_template=source)
    assert rendered(source) == theirs[0] == "21"


def test_loop_controls_and_block_trimming_work_as_on_the_hub() -> None:
    assert rendered("{% for i in [1, 2, 3] %}\n  {% if i == 2 %}{% continue %}{% endif %}\n{{ i }}{% endfor %}") == "13"


def test_json_keeps_order_letters_and_angle_brackets() -> None:
    assert rendered("{{ v | tojson }}", v={"b": "<é>", "a": 1}) == '{"b": "<é>", "a": 1}'


def test_the_special_tokens_are_at_hand() -> None:
    assert ChatTemplate("{{ bos_token }}|{{ none_such }}", {"bos_token": "〈|EOS|〉"}).render([], None) == "〈|EOS|〉|"


def test_the_date_can_be_asked_for() -> None:
    assert rendered("{{ strftime_now('%Y') }}").startswith("20")


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('only once') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 'a' + none }}",
        "{{ 1 // 0 }}",
        "{{ undefined_thing.attribute }}",
        "{{ {}['a'].b }}",
        "{% for k in 'text'.items() %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_a_template_that_refuses_or_fails_raises_by_name(source: str) -> None:
    with pytest.raises(TemplateError, match="the chat template failed: "):
        rendered(source)


@pytest.mark.parametrize("source", ["{% if %}", "{{", "{% generation %}", "{% unknown %}"])
def test_a_template_that_is_not_jinja_is_refused_at_load(source: str) -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        ChatTemplate(source, {})


def test_the_sidecar_wins_over_an_include_in_the_config(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("sidecar", "utf-8")
    config = {"chat_template": "{% include 'chat_template.jinja' %}"}
    assert ChatTemplate.load(tmp_path, config, {}).render([], None) == "sidecar"


def test_an_include_of_a_file_that_is_not_there_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"includes chat_template\.jinja"):
        ChatTemplate.load(tmp_path, {"chat_template": "{% include 'chat_template.jinja' %}"}, {})


def test_the_template_may_stand_in_the_config(tmp_path: Path) -> None:
    assert ChatTemplate.load(tmp_path, {"chat_template": "inline"}, {}).render([], None) == "inline"


def test_of_several_named_templates_the_default_is_taken_and_with_tools_their_own(tmp_path: Path) -> None:
    named = [
        {"name": "tool_use", "template": "t"},
        {"name": "default", "template": "d"},
        {"name": "rag", "template": "r"},
    ]
    template = ChatTemplate.load(tmp_path, {"chat_template": named}, {})
    assert [template.render([], tools) for tools in (None, [], TOOLS)] == ["d", "d", "t"]
    template = ChatTemplate.load(tmp_path, {"chat_template": named[1:]}, {})
    assert template.render([], TOOLS) == "d"


def test_beside_the_sidecar_tools_may_have_a_template_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("d")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("{% broken %}")
    assert ChatTemplate.load(tmp_path, {}, {}).render([], TOOLS) == "d"
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("t")
    template = ChatTemplate.load(tmp_path, {}, {})
    assert [template.render([], tools) for tools in (None, [], TOOLS)] == ["d", "d", "t"]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            [{"name": "tool_use", "template": "t"}],
            r"of the chat templates \['tool_use'\] in .*, none is called 'default'",
        ),
        ([{"name": "default"}], r"is no \{\"name\": ..., \"template\": ...\}"),
        (["default"], r"is no \{\"name\": ..., \"template\": ...\}"),
    ],
)
def test_a_list_without_a_usable_template_is_refused(tmp_path: Path, named: list[Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        ChatTemplate.load(tmp_path, {"chat_template": named}, {})


def test_a_checkpoint_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="has no chat template"):
        ChatTemplate.load(tmp_path, {}, {})
