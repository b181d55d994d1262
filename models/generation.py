"""What a checkpoint's `generation_config.json` asks for where a request says nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.config import read_json
from models.config_fields import Fields
from models.template import RESERVED


@dataclass(frozen=True)
class Generation:
    """What `generation_config.json` asks for where a request does not; `top_k` 0 and `top_p` 1 mean off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    eos_ids: frozenset[int] = frozenset()
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)


def read_generation(folder: Path) -> Generation:
    """Sampling defaults and end-of-text ids: the union of `generation_config.json` and `config.json`.

    Raises:
        ConfigError: a file that is no JSON object, or a value that will not do.
    """
    config = Fields("config", read_json(folder / "config.json"))
    stated = folder / "generation_config.json"
    fields = Fields("generation config", read_json(stated) if stated.is_file() else {})
    greedy = not fields.flag("do_sample", True)
    return Generation(
        temperature=0.0 if greedy else fields.number("temperature", 1.0, least=0.0),
        top_k=fields.integer("top_k", 0, least=0),
        top_p=fields.number("top_p", 1.0, most=1.0),
        min_p=fields.number("min_p", 0.0, least=0.0, most=1.0),
        eos_ids=_end_ids(config) | _end_ids(fields),
        chat_template_kwargs=_template_kwargs(fields),
    )


def _template_kwargs(fields: Fields) -> dict[str, Any]:
    """What the template is to be told, apart from what the server tells it."""
    if fields.get("default_chat_template_kwargs") is None:
        return {}
    stated = fields.inside("default_chat_template_kwargs")
    for name in sorted(RESERVED & stated.raw.keys()):
        stated.refuse(name, "absent: the server sets it")
    return dict(stated.raw)


def _end_ids(fields: Fields) -> frozenset[int]:
    """`eos_token_id`, which is one id or a list."""
    if isinstance(fields.get("eos_token_id"), int):
        return frozenset({fields.integer("eos_token_id", least=0)})
    listed = fields.integers("eos_token_id", default=())
    if any(id_ < 0 for id_ in listed):
        fields.refuse("eos_token_id", "ids of tokens, which begin at 0")
    return frozenset(listed)
