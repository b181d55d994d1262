"""Tokenizer files of a made-up Laguna checkpoint: a small byte-level BPE and both dialects of the template."""

import json
from collections.abc import Mapping
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers

SPECIALS = ["〈|UNK|〉", "〈|EOS|〉", "〈|PAD|〉", "〈|MASK|〉"]
MARKERS = ["<think>", "</think>", "<assistant>", "</assistant>", "<tool_call>", "</tool_call>"]
CORPUS = ["What is the weather in Oslo?", "naïve café ☕ 7 °C", "<arg_key>city</arg_key><arg_value>Oslo</arg_value>"]

ONE_LINE = """\
{#- the 2.1 family: nothing between the tags -#}
{{- "〈|EOS|〉" -}}
{%- set enable_thinking = enable_thinking | default(false) -%}
{%- set preserve_thinking = preserve_thinking | default(false) -%}
{%- set header = "You are a made-up assistant." -%}
{%- if messages and messages[0].role == "system" -%}
  {%- set header = messages[0].content -%}
  {%- set messages = messages[1:] -%}
{%- endif -%}
{%- set has_header = header and header.strip() -%}
{%- if has_header or tools or enable_thinking -%}
  {{- "<system>" -}}
  {%- if has_header -%}{{- header.rstrip() -}}{%- endif -%}
  {%- if tools -%}
    {{- "\\n\\n<available_tools>\\n" -}}
    {%- for tool in tools -%}{{- (tool | tojson) ~ "\\n" -}}{%- endfor -%}
    {{- "</available_tools>" -}}
  {%- endif -%}
  {{- "</system>\\n" -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}
    {{- "<user>" + content + "</user>\\n" -}}
  {%- elif message.role == "assistant" -%}
    {%- generation -%}
      {%- set past = message.reasoning if message.reasoning is string else message.reasoning_content -%}
      {{- "<assistant>" -}}
      {%- if enable_thinking or preserve_thinking -%}
        {{- "<think>" + (past if past is string else "") + "</think>" -}}
      {%- else -%}
        {{- "</think>" -}}
      {%- endif -%}
      {{- content -}}
      {%- for tool_call in message.tool_calls or [] -%}
        {{- "<tool_call>" + tool_call.function.name -}}
        {%- set _args = tool_call.function.arguments -%}
        {%- for k, v in _args.items() -%}
          {{- "<arg_key>" ~ k ~ "</arg_key><arg_value>" -}}
          {{- v | tojson(ensure_ascii=False) if v is not string else v -}}
          {{- "</arg_value>" -}}
        {%- endfor -%}
        {{- "</tool_call>" -}}
      {%- endfor -%}
      {{- "</assistant>\\n" -}}
    {%- endgeneration -%}
  {%- elif message.role == "tool" -%}
    {{- "<tool_response>" + content + "</tool_response>\\n" -}}
  {%- elif message.role == "system" -%}
    {{- "<system>" + content + "</system>\\n" -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- "<assistant>" ~ ("<think>" if enable_thinking else "</think>") -}}
{%- endif -%}
"""

WITH_NEWLINES = """\
{#- the XS.2 family: a newline after every tag, and past reasoning always shown -#}
{{- "〈|EOS|〉" -}}
{%- set enable_thinking = enable_thinking | default(false) -%}
{%- if tools -%}
  {%- set ns = namespace(text="<available_tools>\\n") -%}
  {%- for tool in tools -%}{%- set ns.text = ns.text ~ (tool | tojson) ~ "\\n" -%}{%- endfor -%}
  {{- "<system>\\n" ~ ns.text ~ "</available_tools>\\n</system>\\n" -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "assistant" -%}
    {%- generation -%}
      {{- "<assistant>\\n" -}}
      {%- set past = message.reasoning if message.reasoning is string else "" %}
      {%- if past -%}
        {{- "<think>\\n" + past.strip() + "\\n</think>\\n" -}}
      {%- else -%}
        {{- "</think>\\n" -}}
      {%- endif -%}
      {%- if content.strip() -%}
        {{- content.strip() ~ "\\n" -}}
      {%- endif -%}
      {%- for tool_call in message.tool_calls or [] -%}
        {{- "<tool_call>" + tool_call.function.name }}
        {% set _args = tool_call.function.arguments %}
        {%- for k, v in _args.items() -%}
          {{- "<arg_key>" ~ k ~ "</arg_key>\\n" -}}
          {{- "<arg_value>"}}{{ v | tojson(ensure_ascii=False) if v is not string else v }}{{ "</arg_value>\\n" -}}
        {%- endfor -%}
        {{- "</tool_call>\\n" -}}
      {%- endfor -%}
      {{- "</assistant>\\n" -}}
    {%- endgeneration -%}
  {%- elif message.role == "tool" -%}
    {{- "<tool_response>\\n" + content + "\\n</tool_response>\\n" -}}
  {%- else -%}
    {{- "<" ~ message.role ~ ">\\n" + content + "\\n</" ~ message.role ~ ">\\n" -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- "<assistant>\\n" -}}
  {%- if not enable_thinking %}
    {{- '</think>' -}}
  {%- else %}
    {{- '<think>' -}}
  {%- endif %}
{%- endif -%}
"""


def byte_level_bpe() -> tokenizers.Tokenizer:
    """A vocabulary of bytes and a few merges, with control tokens, whose post-processor adds an opening token."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[AddedToken(text, special=True) for text in SPECIALS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False) for text in MARKERS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="〈|EOS|〉 $A", special_tokens=[("〈|EOS|〉", tokenizer.token_to_id("〈|EOS|〉"))]
    )
    return tokenizer


def write_tokenizer(folder: Path, *, template: str | None = ONE_LINE, **config: object) -> Path:
    """tokenizer.json, tokenizer_config.json and (unless None) the sidecar template, in `folder`."""
    byte_level_bpe().save(str(folder / "tokenizer.json"))
    specials = {"bos_token": "〈|EOS|〉", "eos_token": "〈|EOS|〉", "pad_token": {"content": "〈|PAD|〉"}}
    write_json(folder / "tokenizer_config.json", specials | config)
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder


def write_json(path: Path, value: Mapping[str, object]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
