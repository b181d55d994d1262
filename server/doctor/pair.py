"""The target's and the speculator's configurations, and whether the two belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.config import SpeculatorConfig, TargetConfig
from models.finding import Choice
from models.loading import attention_factor_warnings
from models.shards import DamagedFile
from server.doctor.finding import Finding, Unread


@dataclass(frozen=True)
class TargetFacts:
    """A target as it was asked for."""

    name: str
    folder: Path | Unread
    damage: Sequence[DamagedFile]
    """Files that are missing or not whole."""
    config: TargetConfig | Unread


@dataclass(frozen=True)
class SpeculatorFacts:
    """The speculator that would be loaded."""

    asked: str
    """A name, "auto" or "none"."""
    choice: Choice | Unread
    damage: Sequence[DamagedFile]
    config: SpeculatorConfig | Unread | None
    """None where there is none."""


def target_findings(facts: TargetFacts) -> list[Finding]:
    """Found and read, and what of its configuration is worth a word."""
    if isinstance(facts.folder, Unread):
        advice = "name a folder, or fetch a checkpoint of the hub first: `laguna pull OWNER/NAME`"
        return [Finding("target", "fail", facts.folder.why, advice)]
    findings = [Finding("target", "ok", _found(facts.name, facts.folder)), *_damage_findings("target", facts.damage)]
    if isinstance(facts.config, Unread):
        advice = "fetch the checkpoint's config.json again, or use another checkpoint"
        return [*findings, Finding("target", "fail", facts.config.why, advice)]
    return [*findings, Finding("target", "ok", described(facts.config)), *_factor_findings(facts.config)]


def _found(name: str, folder: Path) -> str:
    return f"{name} in {folder}" if name and Path(name).expanduser() != folder else str(folder)


def described(config: TargetConfig) -> str:
    """The network in one line."""
    windows = [attention.window for attention in config.attention if attention.window is not None]
    sliding = f"{len(windows)} of them with a window of {max(windows)}" if windows else "all of them full"
    experts = config.experts
    routed = "no experts" if experts is None else f"{experts.count} experts, {experts.per_token} answer a token"
    return (
        f"{config.num_layers} layers, {sliding}; hidden size {config.hidden_size}; {routed}; "
        f"context {config.max_position_embeddings} tokens"
    )


def _damage_findings(area: str, damage: Sequence[DamagedFile]) -> list[Finding]:
    return [Finding(area, "fail", f"{found.file}: {found.why}", "fetch or copy it again") for found in damage]


def _factor_findings(config: TargetConfig) -> list[Finding]:
    """YaRN's factor as the file has it, against the one that is used."""
    advice = "leave it, unless answers to long prompts are poor: then compare both"
    return [Finding("target", "warn", said, advice) for said in attention_factor_warnings(config)]


def speculator_findings(facts: SpeculatorFacts, target: TargetFacts) -> list[Finding]:
    """Found, read, and made for this target."""
    match facts.choice:
        case Unread() if isinstance(target.config, Unread):
            advice = "mend the target first"
            return [Finding("speculator", "warn", "cannot be judged before the target's configuration is read", advice)]
        case Unread(why):
            return [Finding("speculator", "fail", why, "'none' as the second argument tells of the target alone")]
        case Choice(folder=None) if facts.asked == "none":
            return [Finding("speculator", "ok", "turned off: every request is decoded plainly")]
        case Choice(folder=None):
            said = facts.choice.trouble or f"every request is decoded plainly: {facts.choice.why_none}"
            return [Finding("speculator", "warn", said, "name a speculator of this target as the second argument")]
    assert facts.choice.folder is not None
    found = Finding("speculator", "ok", _found(facts.choice.given, facts.choice.folder))
    return [found, *_damage_findings("speculator", facts.damage), *_pair_findings(facts.config, facts.choice.warnings)]


def _pair_findings(config: SpeculatorConfig | Unread | None, warnings: Sequence[str]) -> list[Finding]:
    """Of a speculator that was chosen, so its facts fit; the names may still be doubtful."""
    if not isinstance(config, SpeculatorConfig):
        return []
    taps = ", ".join(map(str, config.target_layer_ids))
    shape = f"{config.num_layers} layers, blocks of {config.block_size} rows, reads target layers {taps}"
    doubts = [Finding("pair", "warn", said) for said in warnings]
    fits = f"hidden size {config.hidden_size}, {config.vocab_size} tokens and {config.num_target_layers} layers agree"
    return [Finding("speculator", "ok", shape), Finding("pair", "ok", fits), *doubts]
