"""One examination: facts gathered, each where it can be had, and the findings they add up to."""

from functools import partial
from pathlib import Path

from models.checkpoint import EMBEDDED, locate_checkpoint
from models.config import SpeculatorConfig, TargetConfig
from models.device import on_own_thread
from models.errors import CheckpointError
from models.finding import Choice, choose, hub_name
from models.loading import with_attention_factor, with_kv_bits
from models.outline import outline
from models.packing import read_packing, saving
from models.pairing import is_speculator, mask_warnings, read_speculator
from models.shards import DamagedFile, damaged
from server.doctor import machine, memory, text
from server.doctor.finding import Finding, Unread, known
from server.doctor.pair import SpeculatorFacts, TargetFacts, speculator_findings, target_findings
from server.doctor.weights import weight_findings
from server.loading import loading
from server.settings import Settings

READ = frozenset({"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"})
"""Files that other findings tell of."""


def examine(settings: Settings) -> list[Finding]:
    """Look at what the settings would serve; no tensor is read, and nothing that is wrong with a file ends it."""
    target = _target(settings)
    findings = target_findings(target)
    if isinstance(target.folder, Path):
        speculator = _speculator(settings.speculator, target.name, target.folder)
        findings += speculator_findings(speculator, target)
        findings += _weights(target, speculator, settings)
        findings += _text(target.folder, target.config, speculator.config)
    around = machine.gather(settings)
    findings += machine.machine_findings(around, fetching=isinstance(target.folder, Unread))
    areas = [finding.area for finding in findings]
    return sorted(findings, key=lambda finding: areas.index(finding.area))


def _target(settings: Settings) -> TargetFacts:
    name = EMBEDDED if settings.model is None else settings.model
    folder = known(partial(locate_checkpoint, name, settings.revision))
    if isinstance(folder, Unread):
        return TargetFacts(name, folder, (), folder)
    return TargetFacts(name, folder, _damage(folder), known(lambda: _target_config(folder, settings)))


def _target_config(folder: Path, settings: Settings) -> TargetConfig:
    if is_speculator(folder):
        raise CheckpointError(f"{folder} holds a speculator: name its target first, and this one after it")
    config = with_attention_factor(TargetConfig.from_path(folder), settings.attention_factor)
    return with_kv_bits(config, loading(settings).kv_bits)


def _damage(folder: Path) -> tuple[DamagedFile, ...]:
    found = known(lambda: tuple(found for found in damaged(folder) if found.file.name not in READ))
    return (DamagedFile(folder, found.why),) if isinstance(found, Unread) else found


def _speculator(asked: str, target: str, folder: Path) -> SpeculatorFacts:
    choice = known(partial(choose, asked, hub_name(target), folder, locate_checkpoint))
    if not isinstance(choice, Choice) or choice.folder is None:
        return SpeculatorFacts(asked, choice, (), None)
    return SpeculatorFacts(asked, choice, _damage(choice.folder), known(partial(read_speculator, choice.folder)))


def _weights(target: TargetFacts, speculator: SpeculatorFacts, settings: Settings) -> list[Finding]:
    """Packing and memory of a target whose files are whole and whose configuration was read."""
    folder, config = target.folder, target.config
    if isinstance(folder, Unread) or isinstance(config, Unread) or target.damage:
        return []
    drafts, drafter = _usable(speculator)
    opened = known(lambda: on_own_thread(partial(outline, folder, drafts, loading(settings))))
    if isinstance(opened, Unread):
        return weight_findings(opened)
    smaller = saving(read_packing(folder), loading(settings).fp8_bits)
    facts = known(partial(memory.gather, target.name, opened, config, drafter, settings, smaller))
    return [*weight_findings(opened), *memory.memory_findings(facts)]


def _usable(speculator: SpeculatorFacts) -> tuple[Path, SpeculatorConfig] | tuple[None, None]:
    """Folder and configuration of a speculator that can be opened."""
    choice, config = speculator.choice, speculator.config
    if isinstance(choice, Unread) or choice.folder is None or not isinstance(config, SpeculatorConfig):
        return None, None
    return (None, None) if speculator.damage else (choice.folder, config)


def _text(folder: Path, target: TargetConfig | Unread, speculator: SpeculatorConfig | Unread | None) -> list[Finding]:
    """Vocabulary and template, and what the vocabulary says about the speculator."""
    facts = known(partial(text.gather, folder))
    findings = text.text_findings(facts, target.vocab_size if isinstance(target, TargetConfig) else None)
    if isinstance(facts, Unread) or not isinstance(speculator, SpeculatorConfig):
        return findings
    return [*findings, *(Finding("pair", "warn", said) for said in mask_warnings(speculator, facts.mask))]
