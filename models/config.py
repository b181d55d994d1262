"""Both `config.json` files as frozen, checked values.

A field that cannot be honoured is refused with its name, its value and what would do. `config_fields.py` knows the
spellings, `config_layers.py` the layers; here is what a network may rely on afterwards.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from models.config_fields import ConfigError, Fields, sparse_layers
from models.config_layers import (
    AttentionConfig,
    ExpertsConfig,
    block_size,
    experts,
    mask_token,
    speculator_attention,
    tapped_layers,
    target_attention,
)

TARGET_ARCHITECTURE = "LagunaForCausalLM"
MODEL_TYPE = "laguna"
SPECULATOR_ARCHITECTURE = "DFlashLagunaForCausalLM"


class Configuration(ABC):
    """What a network may rely on."""

    @classmethod
    def from_path(cls, folder: Path) -> Self:
        """Read `folder/config.json`.

        Raises:
            ConfigError: no such file, no JSON object in it, or a field that will not do.
        """
        return cls.from_dict(read_json(folder / "config.json"))

    @classmethod
    @abstractmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Check a parsed `config.json`.

        Raises:
            ConfigError: a field that is missing or will not do, by name.
        """


@dataclass(frozen=True)
class TargetConfig(Configuration):
    """A Laguna target. `attention` and `sparse` have one entry for each layer."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    eps: float
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention: tuple[AttentionConfig, ...]
    sparse: tuple[bool, ...]
    experts: ExpertsConfig | None

    @property
    def num_layers(self) -> int:
        """Transformer blocks."""
        return len(self.attention)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Check a target's `config.json`; raises ConfigError."""
        fields = Fields("target config", raw)
        if "dflash_config" in raw:
            fields.refuse("dflash_config", "absent: this is a speculator, and a target is needed")
        fields.architecture(TARGET_ARCHITECTURE, MODEL_TYPE)
        fields.activation()
        attention = target_attention(fields)
        sparse = sparse_layers(fields, len(attention))
        return cls(
            vocab_size=fields.integer("vocab_size"),
            hidden_size=fields.integer("hidden_size"),
            intermediate_size=fields.integer("intermediate_size"),
            eps=fields.number("rms_norm_eps", 1e-6),
            max_position_embeddings=fields.integer("max_position_embeddings"),
            tie_word_embeddings=fields.flag("tie_word_embeddings", False),
            attention=attention,
            sparse=sparse,
            experts=experts(fields) if any(sparse) else None,
        )


@dataclass(frozen=True)
class SpeculatorConfig(Configuration):
    """A DFlash speculator. `attention` has one entry for each draft layer; all of them slide."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    eps: float
    attention: tuple[AttentionConfig, ...]
    block_size: int
    mask_token_id: int
    num_target_layers: int
    target_layer_ids: tuple[int, ...]

    @property
    def num_layers(self) -> int:
        """Draft layers."""
        return len(self.attention)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Check a speculator's `config.json`; raises ConfigError."""
        fields = Fields("speculator config", raw)
        fields.architecture(SPECULATOR_ARCHITECTURE)
        fields.activation()
        dflash = fields.inside("dflash_config")
        if not dflash.flag("causal", True):
            dflash.refuse("causal", "true: a block that sees its own later rows is another network")
        vocab_size = fields.integer("vocab_size")
        if fields.integer("draft_vocab_size", vocab_size) != vocab_size:
            fields.refuse(
                "draft_vocab_size", f"vocab_size ({vocab_size}): the target's embedding and head are borrowed"
            )
        return cls(
            vocab_size=vocab_size,
            hidden_size=fields.integer("hidden_size"),
            intermediate_size=fields.integer("intermediate_size"),
            eps=fields.number("rms_norm_eps", 1e-6),
            attention=speculator_attention(fields),
            block_size=block_size(dflash),
            mask_token_id=mask_token(dflash, vocab_size),
            num_target_layers=dflash.integer("num_target_layers"),
            target_layer_ids=tapped_layers(fields, dflash),
        )


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a file.

    Raises:
        ConfigError: the file is absent, cannot be read or holds no JSON object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(str(path), "missing", "a file of the checkpoint") from error
    except OSError as error:
        raise ConfigError(str(path), f"unreadable ({error.strerror})", "a file of the checkpoint") from error
    # Lists within lists without end are no ValueError.
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), f"not JSON ({error})", "one JSON object") from error
    if not isinstance(raw, dict):
        raise ConfigError(str(path), type(raw).__name__, "one JSON object")
    return raw
