"""Chat templates that behave like the published ones, in our own words and with a made-up system text.

`one_line` is the 2.1 family's, in its first form and in the later one of S-2.1; `with_newlines` is XS.2's and M.1's.
"""

SYSTEM = "You are a made-up assistant."
HOW_THINKING = "Think first, then call, as in: <think> ... </think>\n<tool_call>name\n<arg_key>k</arg_key>"
HOW = "Call as in: <tool_call>name\n<arg_key>k</arg_key>"

_ONE_LINE = """\
{%- macro call(f) -%}
{{- "<tool_call>" ~ f.name -}}
{%- for k, v in f.arguments.items() -%}
{{- "<arg_key>" ~ k ~ "</arg_key><arg_value>" ~ (v if v is string else v | tojson(ensure_ascii=False)) -}}
{{- "</arg_value>" -}}
{%- endfor -%}
{{- "</tool_call>" -}}
{%- endmacro -%}
{%- set thinks = enable_thinking | default(@THINKS@) -%}
{%- set shows = thinks or @SHOWS@ -%}
{{- "〈|EOS|〉" -}}
{%- set header = "@SYSTEM@" -%}
{%- if messages and messages[0].role == "system" -%}
{%- set header, messages = messages[0].content, messages[1:] -%}
{%- endif -%}
{%- if not header.strip() -%}{%- set header = "" -%}{%- endif -%}
{%- if header or tools or thinks -%}
{{- "<system>" ~ header.rstrip() ~ ("\\n\\n" if header and tools else "") -}}
{%- if tools -%}
{{- "### Tools\\n\\nYou may call functions to assist with the user query.\\n" -}}
{{- "All available function signatures are listed below:\\n<available_tools>\\n" -}}
{%- for tool in tools -%}{{- (tool | tojson) ~ "\\n" -}}{%- endfor -%}
{{- "</available_tools>" -}}
{%- endif -%}
{{- "</system>\\n" -}}
{%- endif -%}
{%- for m in messages -%}
{%- set content = m.content if m.content is string else "" -%}
{%- if m.role == "assistant" -%}
{%- generation -%}
{%- set past = m.reasoning if m.reasoning is string else m.reasoning_content -%}
{{- "<assistant>" ~ ("<think>" ~ (past if past is string else "") if shows else "") ~ "</think>" ~ content -}}
{%- for one in m.tool_calls or [] -%}{{- call(one.function) -}}{%- endfor -%}
{{- "</assistant>\\n" -}}
{%- endgeneration -%}
{%- elif m.role in ("user", "system") -%}
{{- "<" ~ m.role ~ ">" ~ content ~ "</" ~ m.role ~ ">\\n" -}}
{%- elif m.role == "tool" -%}
{{- "<tool_response>" ~ content ~ "</tool_response>\\n" -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<assistant>" ~ ("<think>" if thinks else "</think>") -}}{%- endif -%}
"""

_WITH_NEWLINES = """\
{%- macro call(f) -%}
{{- "<tool_call>" ~ f.name ~ "\\n" -}}
{%- for k, v in f.arguments.items() -%}
{{- "<arg_key>" ~ k ~ "</arg_key>\\n<arg_value>" ~ (v if v is string else v | tojson(ensure_ascii=False)) -}}
{{- "</arg_value>\\n" -}}
{%- endfor -%}
{{- "</tool_call>\\n" -}}
{%- endmacro -%}
{%- macro raw(content, opening) -%}
{{- "" if content.startswith(opening) else opening -}}
{{- content -}}
{{- "" if content.endswith(("</assistant>", "</assistant>\\n")) else "\\n</assistant>" -}}
{{- "\\n" -}}
{%- endmacro -%}
{%- set thinks = enable_thinking | default(false) -%}
{%- set opening = "<think>" if thinks else "</think>" -%}
{{- "〈|EOS|〉" -}}
{%- set header = messages[0].content if messages and messages[0].role == "system" else "@SYSTEM@" -%}
{%- if not header.strip() -%}{%- set header = "" -%}{%- endif -%}
{%- if header or tools -%}
{{- "<system>\\n" ~ ("\\n" ~ header.rstrip() if header else "") -}}
{%- if tools -%}
{{- "\\n\\n### Tools\\n\\nYou may call functions to assist with the user query.\\n" -}}
{{- "All available function signatures are listed below:\\n<available_tools>\\n" -}}
{%- for tool in tools -%}{{- (tool | tojson) ~ "\\n" -}}{%- endfor -%}
{{- "</available_tools>\\n\\n" ~ ("@HOW_THINKING@" if thinks else "@HOW@") -}}
{%- endif -%}
{{- "\\n</system>\\n" -}}
{%- endif -%}
{%- for m in messages -%}
{%- set content = m.content if m.content is string else "" -%}
{%- if m.role == "assistant" -%}
{%- generation -%}
{{- "<assistant>\\n" -}}
{%- if render_assistant_messages_raw | default(false) -%}
{{- raw(content, opening) -}}
{%- else -%}
{%- set past = m.reasoning if m.reasoning is string else m.reasoning_content -%}
{%- set past = past if past is string else "" -%}
{%- if "</think>" in content -%}
{%- set past = past or content.split("</think>")[0].rstrip("\\n").split("<think>")[-1].lstrip("\\n") -%}
{%- set content = content.split("</think>")[-1].lstrip("\\n") -%}
{%- endif -%}
{{- ("<think>\\n" ~ past.strip() ~ "\\n" if past else "") ~ "</think>\\n" -}}
{{- content.strip() ~ "\\n" if content.strip() else "" -}}
{%- for one in m.tool_calls or [] -%}{{- call(one.function) -}}{%- endfor -%}
{{- "</assistant>\\n" -}}
{%- endif -%}
{%- endgeneration -%}
{%- elif m.role == "user" or m.role == "system" and not loop.first -%}
{{- "<" ~ m.role ~ ">\\n" ~ content ~ "\\n</" ~ m.role ~ ">\\n" -}}
{%- elif m.role == "tool" -%}
{{- "<tool_response>\\n" ~ content ~ "\\n</tool_response>\\n" -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<assistant>\\n" ~ opening -}}{%- endif -%}
"""


def one_line(*, later: bool = False, system: str = SYSTEM) -> str:
    """XS-2.1's template, which S-2.1 began with; `later` thinks unless told not to and can show past thoughts then."""
    shows = "preserve_thinking | default(false)" if later else "false"
    filled = {"@THINKS@": "true" if later else "false", "@SHOWS@": shows, "@SYSTEM@": system}
    return _filled(_ONE_LINE, filled)


def with_newlines(*, system: str = SYSTEM, how: tuple[str, str] = (HOW_THINKING, HOW)) -> str:
    """XS.2's template; M.1's has no system text of its own."""
    thinking, plain = (text.replace("\n", "\\n") for text in how)
    return _filled(_WITH_NEWLINES, {"@SYSTEM@": system, "@HOW_THINKING@": thinking, "@HOW@": plain})


def _filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(name, value)
    return template


XS_2_1 = one_line()
S_2_1_LATER = one_line(later=True)
XS_2 = with_newlines()
M_1 = with_newlines(system="")
