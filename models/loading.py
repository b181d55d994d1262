"""How a pair is loaded, where there is a choice."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from models.config import TargetConfig
from models.config_layers import AttentionConfig
from models.errors import CheckpointError
from models.progress import Report, unreported

KvBits = Literal[4, 8]
AttentionFactor = Literal["derived", "config"]


@dataclass(frozen=True)
class Loading:
    """Which files are taken, what the networks compute with them, and what may be used up; the defaults are safe.

    Attributes:
        attention_factor: YaRN's scale of queries and keys: derived from the file's `factor`, as the serving stacks of
            these models do, or the file's own `attention_factor` where it states one.
        speculator_bits: bits of the speculator's linear layers, quantised as they are loaded; None leaves them.
        fp8_bits: bits to which weights published as 8-bit floats are packed; None multiplies them out, exactly but for
            one rounding to the run dtype, in twice the memory.
        kv_bits: bits to which the keys and values of layers that see everything are packed; None keeps them exact.
        revision: of the target, where that is a hub id: a branch, tag or commit; None for the main branch.
        memory_limit: GiB that weights and sessions may take; None for what the machine says.
        calibration: a file of what decoding costs on this machine, for this pair, to start from; None measures it.
        report: told how far download and loading are; what it raises ends them.
    """

    attention_factor: AttentionFactor = "derived"
    speculator_bits: Literal[4] | None = None
    fp8_bits: Literal[8] | None = None
    kv_bits: KvBits | None = None
    revision: str | None = None
    memory_limit: float | None = None
    calibration: Path | None = None
    report: Report = unreported

    @property
    def packed(self) -> Mapping[str, int]:
        """Bits of what is packed as it is loaded or kept, by name: rounds take another time with it."""
        bits = {"speculator": self.speculator_bits, "fp8": self.fp8_bits, "kv": self.kv_bits}
        return {name: each for name, each in bits.items() if each is not None}


DEFAULTS = Loading()
"""Nothing chosen."""


def packed_group(head_dim: int) -> int | None:
    """Numbers of a packed key or value that share a scale: 64, or 32 where that does not fit; None for neither."""
    return next((group for group in (64, 32) if head_dim % group == 0), None)


def with_kv_bits(config: TargetConfig, bits: KvBits | None) -> TargetConfig:
    """The same network, what its layers without a window remember packed to `bits`.

    Raises:
        CheckpointError: a head has a width that cannot be packed.
    """
    wrong = [layer.head_dim for layer in config.attention if layer.window is None and not packed_group(layer.head_dim)]
    if bits is not None and wrong:
        raise CheckpointError(f"--kv-bits needs heads of a multiple of 32, and this network's have {wrong[0]}")
    packed = (replace(layer, kv_bits=None if layer.window else bits) for layer in config.attention)
    return replace(config, attention=tuple(packed))


def with_attention_factor(config: TargetConfig, chosen: AttentionFactor) -> TargetConfig:
    """The same network, with YaRN's factor derived or as the file states it."""

    def turned(attention: AttentionConfig) -> AttentionConfig:
        return replace(attention, rope=replace(attention.rope, as_stated=chosen == "config"))

    return replace(config, attention=tuple(map(turned, config.attention)))


def attention_factor_warnings(config: TargetConfig) -> tuple[str, ...]:
    """Files and serving stacks disagree about YaRN's factor: both values where they differ, and which one counts."""
    ropes = dict.fromkeys(attention.rope for attention in config.attention)
    differing = [
        (rope, rope.attention_factor)
        for rope in ropes
        if rope.attention_factor is not None and abs(rope.attention_factor - rope.derived_factor) > 1e-3
    ]
    return tuple(
        f"attention_factor is {stated} in the config and {rope.derived_factor:.4f} derived from its factor; "
        + (
            "the config's is used, as --attention-factor config asks"
            if rope.as_stated
            else "the derived one is used, as serving stacks do (--attention-factor config uses the file's)"
        )
        for rope, stated in differing
    )
