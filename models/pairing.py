"""Whether a target and a speculator belong together, by the facts that both configurations state."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from models.config import SPECULATOR_ARCHITECTURE, SpeculatorConfig, TargetConfig, read_json
from models.errors import PairError, SpeculatorKindError

MASK = "〈|MASK|〉"
"""The token of Laguna's vocabulary that a block is filled up with."""

_OTHER_KIND = ("speculators_config", "speculators_model_type", "transformer_layer_config")
"""Fields of the format in which XS.2's speculator was published."""


def is_speculator(folder: Path) -> bool:
    """Whether the folder holds a speculator; both kinds say model_type "laguna", so that is not asked."""
    raw = read_json(folder / "config.json")
    return "dflash_config" in raw or raw.get("architectures") == [SPECULATOR_ARCHITECTURE] or _is_other_kind(raw)


def read_speculator(folder: Path) -> SpeculatorConfig:
    """The configuration of a speculator that runs here.

    Raises:
        SpeculatorKindError: another architecture of speculator.
        ConfigError: a field that will not do.
    """
    raw = read_json(folder / "config.json")
    if _is_other_kind(raw):
        own = raw.get("draft_vocab_size", "a vocabulary of its own")
        raise SpeculatorKindError(
            f"{folder} is a speculator of another architecture ({raw.get('architectures', 'no architectures')}, as "
            f"published for Laguna-XS.2): Llama-like layers, an embedding and a head of its own (draft_vocab_size "
            f"{own}). Only {SPECULATOR_ARCHITECTURE} runs here, which Laguna-XS-2.1 and Laguna-S-2.1 have; "
            "serve this target with --speculator none"
        )
    return SpeculatorConfig.from_dict(raw)


def check_pair(target: TargetConfig, speculator: SpeculatorConfig) -> None:
    """Compare the facts that both configurations state.

    Raises:
        PairError: every fact that does not fit, with both values.
    """
    misfits = list(_misfits(target, speculator))
    if misfits:
        raise PairError(
            f"this speculator is for another target: {'; '.join(misfits)}. Give the speculator that was published "
            "for this target, or --speculator none"
        )


def mask_warnings(speculator: SpeculatorConfig, mask_id: int | None) -> tuple[str, ...]:
    """Whether the token that stands for drafts to come is the mask of the target's vocabulary, where that has one."""
    if mask_id in (None, speculator.mask_token_id):
        return ()
    told = (
        f"The speculator's mask_token_id is {speculator.mask_token_id}, but {MASK} is token {mask_id} of the target's "
        "vocabulary: few drafts may be accepted, and no text changes. Check its config.json."
    )
    return (told,)


def _misfits(target: TargetConfig, speculator: SpeculatorConfig) -> Iterator[str]:
    facts = {
        "hidden_size": (speculator.hidden_size, target.hidden_size),
        "vocab_size": (speculator.vocab_size, target.vocab_size),
        "dflash_config.num_target_layers": (speculator.num_target_layers, target.num_layers),
    }
    for name, (wanted, found) in facts.items():
        if wanted != found:
            yield f"its {name} is {wanted}, the target has {found}"
    beyond = [tap for tap in speculator.target_layer_ids if tap >= target.num_layers]
    if beyond:
        yield f"it reads the layers {beyond}, the target's last one is {target.num_layers - 1}"
    if speculator.mask_token_id >= target.vocab_size:
        yield f"its mask_token_id is {speculator.mask_token_id}, the target has {target.vocab_size} tokens"


def _is_other_kind(raw: Mapping[str, Any]) -> bool:
    return "dflash_config" not in raw and any(field in raw for field in _OTHER_KIND)
