"""The checkpoint's chat template, rendered as transformers renders it, in a sandbox.

A template comes with the weights, from whoever made them: it may neither run code nor change what it is given.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.messages import TemplateError

SIDECAR = "chat_template.jinja"
"""The file beside the weights that wins over the template inside tokenizer_config.json."""

WITH_TOOLS = "additional_chat_templates/tool_use.jinja"
"""Beside the first, the one for requests with tools, where they have one of their own."""

RESERVED = frozenset({"messages", "tools", "add_generation_prompt"})
"""Names the caller of a template cannot set through its keyword arguments."""

# What foreign template code can raise on values it did not expect; our own code is not inside this net.
_TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Generation(Extension):
    """`{% generation %}` marks the assistant's tokens for training; here it only scopes its body."""

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        """The block's body in a scope of its own, as in transformers, where it is a call block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatTemplate:
    """A compiled template and the special tokens it may name, such as `bos_token`."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], *, with_tools: str | None = None) -> None:
        """Compile `source`, and `with_tools` where requests with tools have a template of their own.

        Raises:
            TemplateError: it is not Jinja, or it includes a file that is not there.
        """
        self._template = _compiled(source)
        self._with_tools = self._template if with_tools is None else _compiled(with_tools)
        self._special_tokens = dict(special_tokens)

    @classmethod
    def load(
        cls, folder: Path, tokenizer_config: Mapping[str, Any], special_tokens: Mapping[str, str]
    ) -> "ChatTemplate":
        """The template of a checkpoint folder: its sidecar, else the one in its tokenizer_config.json.

        Raises:
            TemplateError: neither is there, or it cannot be read, or it does not compile.
        """
        sidecar = _source(folder / SIDECAR)
        if sidecar is not None:
            return cls(sidecar, special_tokens, with_tools=_source(folder / WITH_TOOLS))
        match tokenizer_config.get("chat_template"):
            case str(source):
                return cls(source, special_tokens)
            case list(entries):
                named = _by_name(entries)
                if "default" not in named:
                    raise TemplateError(f"of the chat templates {sorted(named)} in {folder}, none is called 'default'")
                return cls(named["default"], special_tokens, with_tools=named.get("tool_use"))
        raise TemplateError(f"{folder} has no chat template: neither {SIDECAR} nor one in tokenizer_config.json")

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, **kwargs: object
    ) -> str:
        """The prompt text up to the point where the assistant speaks.

        Raises:
            TemplateError: the template refuses these messages or fails on them, or `kwargs` holds a reserved name.
        """
        reserved = sorted(RESERVED & kwargs.keys())
        if reserved:
            raise TemplateError(f"chat template arguments cannot set {', '.join(reserved)}: the server does")
        values = self._special_tokens | kwargs
        template = self._with_tools if tools else self._template
        try:
            return template.render(values, messages=messages, tools=tools, add_generation_prompt=True)
        except _TEMPLATE_FAULTS as error:
            raise TemplateError(f"the chat template failed: {type(error).__name__}: {error}") from error


def _source(path: Path) -> str | None:
    """The text of a template; None where there is no such file."""
    try:
        return path.read_text("utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"{path} cannot be read: {error}") from error


def _by_name(entries: Sequence[object]) -> dict[str, str]:
    """The templates of a list, as transformers writes several."""
    named: dict[str, str] = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "template": str(source)}:
                named[name] = source
            case _:
                raise TemplateError('a chat template in tokenizer_config.json is no {"name": ..., "template": ...}')
    return named


def _compiled(source: str) -> jinja2.Template:
    environment = _environment()
    try:
        included = sorted(str(name) for name in meta.find_referenced_templates(environment.parse(source)))
        template = environment.from_string(source, globals=_globals())
    except jinja2.TemplateError as error:
        raise TemplateError(f"the chat template does not compile: {error}") from error
    if included:
        raise TemplateError(f"the chat template includes {', '.join(included)}, which the checkpoint does not hold")
    return template


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja set up as templates on the hub expect it (transformers, `utils/chat_template_utils.py`)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    return environment


def _globals() -> dict[str, Any]:
    return {"raise_exception": _raise, "strftime_now": _strftime_now}


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes HTML and sorts keys, which is not what the model was trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
