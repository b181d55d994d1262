"""Whether the pair fits into memory, how much conversation fits beside it, and what would make more room on a Mac."""

from dataclasses import dataclass, replace

from models.config import SpeculatorConfig, TargetConfig
from models.device import Device, default_device
from models.machine import memory_limit
from models.memory import GIB, LEAST_TOKENS, Footprint, Limit, NotEnoughMemory, check_memory, footprint, gib
from models.outline import Outline
from server.admission import Room, kept_bytes
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
    context_length: int
    """Tokens that prompt and answer may have together."""
    concurrency: int
    """Requests decoded side by side."""
    kept: int = 0
    """Bytes for what is kept of earlier prompts."""
    smaller: str = ""
    """A flag that would shrink the target's weights."""

    @property
    def left(self) -> int:
        """Bytes for conversations and what is kept of them."""
        return max(0, self.limit.size - self.need.weights - self.need.workspace)

    def session_bytes(self, tokens: int) -> int:
        """The most that the caches of one conversation of so many tokens take, alone."""
        return self.need.session(tokens)

    def beside_bytes(self, tokens: int) -> int:
        """The same of one among several."""
        return self.need.beside(tokens)

    @property
    def room(self) -> Room:
        """What is left for running conversations."""
        return Room(self.left - self.kept, self.beside_bytes)


def gather(
    name: str,
    opened: Outline,
    target: TargetConfig,
    speculator: SpeculatorConfig | None,
    settings: Settings,
    smaller: str = "",
) -> MemoryFacts:
    """Sum up an opened pair, and ask the machine; `smaller` is a flag with which the target would take less."""
    device = default_device()
    need = footprint(
        target,
        speculator,
        width=device.width,
        target_weights=opened.target_bytes,
        speculator_weights=opened.speculator_bytes,
    )
    context = min(target.max_position_embeddings, settings.context_length or target.max_position_embeddings)
    limit = memory_limit(settings.memory_limit)
    facts = MemoryFacts(name, need, limit, device, context, settings.concurrency, smaller=smaller)
    return replace(facts, kept=kept_bytes(facts, settings))


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
        check_memory(facts.name, facts.need, facts.limit, facts.context_length, facts.smaller)
    except NotEnoughMemory as error:
        return Finding("memory", "fail", str(error))
    there = f"{gib(facts.limit.size)} ({facts.limit.source})"
    beside = f" and {gib(facts.kept)} kept of earlier prompts" if facts.kept else ""
    if not facts.need.per_token:
        return Finding("memory", "ok", f"{there} hold a conversation of any length{beside}")
    tokens = facts.room.longest(facts.context_length, facts.session_bytes)
    if tokens < facts.context_length:
        advice = f"longer prompts are refused by that number; {_for_longer_ones(facts)}"
        said = f"{there} hold one conversation of {tokens} tokens{beside}, the context has {facts.context_length}"
        return Finding("memory", "warn", said, advice)
    full = side_by_side(facts)
    most = f"at least {full}" if full == facts.concurrency else str(full)
    said = f"{there} hold {most} conversations of {facts.context_length} tokens side by side{beside}"
    return Finding("memory", "ok", said)


def _for_longer_ones(facts: MemoryFacts) -> str:
    """What makes room for a longer conversation."""
    flags = [flag for flag in (facts.smaller, "--prefix-cache-gib 0" if facts.kept else "", "--kv-bits 8") if flag]
    return f"{' or '.join(flags)} makes room for more"


def side_by_side(facts: MemoryFacts) -> int:
    """Conversations of full length that fit at once, up to as many as are decoded at once."""
    # One was found to fit, alone.
    return min(facts.concurrency, max(1, facts.room.size // max(1, facts.beside_bytes(facts.context_length))))


def _wired_findings(facts: MemoryFacts) -> list[Finding]:
    """On a Mac, what the system keeps from the GPU may be given to it."""
    device = facts.device
    if device.working_set is None or facts.limit.size != device.working_set:
        return []
    wanted = facts.need.weights + facts.session_bytes(facts.context_length) + facts.need.workspace
    most = device.memory - RESERVED
    least = facts.need.least(min(LEAST_TOKENS, facts.context_length))
    if wanted <= device.working_set or most <= max(device.working_set, least):
        return []
    share = min(most, wanted)
    said = (
        f"the system lets the GPU keep {gib(device.working_set)} of {gib(device.memory)}; "
        f"weights and a full context take {gib(wanted)}"
    )
    advice = f"`sudo sysctl iogpu.wired_limit_mb={-(-share // 2**20)}` raises it to {gib(share)} until the next restart"
    return [Finding("memory", "warn", said, advice)]
