"""Whether the pair fits into memory, how much conversation fits beside it, and what would make more room on a Mac."""

from dataclasses import dataclass

from models.config import SpeculatorConfig, TargetConfig
from models.device import Device, default_device
from models.machine import memory_limit
from models.memory import GIB, LEAST_TOKENS, Footprint, Limit, NotEnoughMemory, check_memory, footprint, gib, room
from models.outline import Outline
from server.doctor.finding import Finding, Unread
from server.settings import Settings

RESERVED = 6 * GIB
"""Of a Mac's memory, for the system: raising the GPU's share into it makes the machine unusable."""


@dataclass(frozen=True)
class MemoryFacts:
    """What the pair takes and what there is."""

    name: str
    """The target's."""
    need: Footprint
    limit: Limit
    device: Device
    context: int
    """Tokens that prompt and answer may have together."""
    concurrency: int
    """Requests decoded side by side."""


def gather(
    name: str, opened: Outline, target: TargetConfig, speculator: SpeculatorConfig | None, settings: Settings
) -> MemoryFacts:
    """Sum up an opened pair, and ask the machine."""
    device = default_device()
    need = footprint(
        target,
        speculator,
        width=device.width,
        target_weights=opened.target_bytes,
        speculator_weights=opened.speculator_bytes,
    )
    context = min(target.max_position_embeddings, settings.context_length or target.max_position_embeddings)
    return MemoryFacts(name, need, memory_limit(settings.memory_limit), device, context, settings.concurrency)


def memory_findings(facts: MemoryFacts | Unread) -> list[Finding]:
    """The sums, and what they allow."""
    if isinstance(facts, Unread):
        return [Finding("memory", "warn", f"cannot be told: {facts.why}")]
    return [_sums(facts.need), _verdict(facts), *_wired_findings(facts)]


def _sums(need: Footprint) -> Finding:
    speculator = f", the speculator's {gib(need.speculator)}" if need.speculator else ""
    each = f"{need.per_token / 2**10:.3g} KiB a token and {gib(need.per_session)} a conversation"
    return Finding("memory", "ok", f"the target's weights take {gib(need.target)}{speculator}; then {each}")


def _verdict(facts: MemoryFacts) -> Finding:
    try:
        check_memory(facts.name, facts.need, facts.limit, facts.context)
    except NotEnoughMemory as error:
        return Finding("memory", "fail", str(error))
    there = f"{gib(facts.limit.size)} ({facts.limit.source})"
    if not facts.need.per_token:
        return Finding("memory", "ok", f"{there} hold a conversation of any length")
    tokens = room(facts.need, facts.limit)
    if tokens < facts.context:
        advice = f"set --context-length {tokens}, so that longer prompts are refused by that number"
        said = f"{there} hold one conversation of {tokens} tokens, the context has {facts.context}"
        return Finding("memory", "warn", said, advice)
    full = side_by_side(facts)
    most = f"at least {full}" if full == facts.concurrency else str(full)
    return Finding("memory", "ok", f"{there} hold {most} conversations of {facts.context} tokens side by side")


def side_by_side(facts: MemoryFacts) -> int:
    """Conversations of full length that fit at once, up to as many as are decoded at once."""
    left = facts.limit.size - facts.need.weights - facts.need.workspace
    return min(facts.concurrency, left // max(1, facts.need.session(facts.context)))


def _wired_findings(facts: MemoryFacts) -> list[Finding]:
    """On a Mac, what the system keeps from the GPU may be given to it."""
    device = facts.device
    if device.working_set is None or facts.limit.size != device.working_set:
        return []
    wanted = facts.need.weights + facts.need.session(facts.context) + facts.need.workspace
    most = device.memory - RESERVED
    least = facts.need.least(min(LEAST_TOKENS, facts.context))
    if wanted <= device.working_set or most <= max(device.working_set, least):
        return []
    share = min(most, wanted)
    said = (
        f"the system lets the GPU keep {gib(device.working_set)} of {gib(device.memory)}; "
        f"weights and a full context take {gib(wanted)}"
    )
    advice = f"`sudo sysctl iogpu.wired_limit_mb={-(-share // 2**20)}` raises it to {gib(share)} until the next restart"
    return [Finding("memory", "warn", said, advice)]
