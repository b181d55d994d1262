"""How much memory a pair takes: sums over its configurations, and the refusal where there is not enough.

Everything is in bytes; `width` is the bytes of one number at the run dtype (2 on Metal, 4 on the CPU).
"""

from dataclasses import dataclass

from models.config import SpeculatorConfig, TargetConfig
from models.config_layers import AttentionConfig
from models.errors import CheckpointError
from models.loading import packed_group
from models.slack import NEAR, SHARED_ROWS, SPARE_PART, slack

GIB = 2**30

LEAST_TOKENS = 4096
"""A conversation of this length must fit beside the weights; a shorter one would serve nobody."""

PASS_ROWS = 512
"""Rows of the widest pass that is reckoned with: one chunk of a prompt."""

LAYERS_ALIVE = 4
"""Layers whose results are in memory at once: a pass is written down ahead of the device. Measured on the CPU."""

LOGIT_ROWS = 32
"""Rows of logits that live at once: a block's, before and after what is asked of sampling."""

_SPARE_ROWS = 64
"""Free rows of a window's buffer at least; half its window where that is more."""
_STEP = 256
"""Rows by which a full cache grows at least; a sixteenth where that is more."""


class NotEnoughMemory(CheckpointError):
    """The weights and one conversation do not fit; nothing was read."""


@dataclass(frozen=True)
class Limit:
    """Memory that may be used, and who says so."""

    size: int
    source: str


@dataclass(frozen=True)
class Footprint:
    """What a pair takes in memory.

    Attributes:
        target: weights as they run, after unpacking.
        speculator: the same; 0 without one.
        per_token: keys and values of all layers that see everything, for each token of a session.
        per_session: buffers of the sliding layers and of the speculator's context, whatever the session's length.
        window_rows: what of `per_session` holds rows that count; a snapshot of a session has these and its tokens.
        workspace: results inside one pass of `PASS_ROWS` rows, an estimate.
    """

    target: int
    speculator: int
    per_token: int
    per_session: int
    window_rows: int
    workspace: int

    @property
    def weights(self) -> int:
        """Of both."""
        return self.target + self.speculator

    def session(self, tokens: int) -> int:
        """The most that a session of so many tokens takes: up to a sixteenth of its rows is spare in full caches.

        The rest of a quarter is for the layer that is held twice while it grows.
        """
        rows = tokens + max(_STEP, tokens // 4) + _STEP if self.per_token else 0
        return self.per_session + rows * self.per_token

    def beside(self, tokens: int) -> int:
        """The same beside others: a slot may be as long as another session needs, and a few are kept free."""
        slot = (SHARED_ROWS + SHARED_ROWS // SPARE_PART) * self.per_token
        return max(self.session(tokens), self.per_session + slot) + self.per_session // SPARE_PART

    def least(self, tokens: int = LEAST_TOKENS) -> int:
        """Weights, one session of `tokens` tokens and one pass."""
        return self.weights + self.session(tokens) + self.workspace


def footprint(
    target: TargetConfig,
    speculator: SpeculatorConfig | None,
    *,
    width: int,
    target_weights: int,
    speculator_weights: int = 0,
) -> Footprint:
    """The sums for one pair.

    Args:
        target: its configuration.
        speculator: the same; None without one.
        width: bytes of one number at the run dtype.
        target_weights: bytes of the weights as they run (`models.settling.held_bytes`).
        speculator_weights: the same.
    """
    back = slack(None if speculator is None else speculator.block_size)
    own = speculator.attention if speculator is not None else ()
    sliding = [(layer, layer.window, back) for layer in target.attention if layer.window is not None]
    sliding += [(layer, layer.window, NEAR) for layer in own if layer.window is not None]
    return Footprint(
        target=target_weights,
        speculator=speculator_weights,
        per_token=sum(row_bytes(layer, width) for layer in target.attention if layer.window is None),
        per_session=sum(buffer_rows(window, spare) * row_bytes(layer, width) for layer, window, spare in sliding),
        window_rows=sum((window - 1) * row_bytes(layer, width) for layer, window, _ in sliding),
        workspace=workspace(target, width),
    )


def row_bytes(layer: AttentionConfig, width: int) -> int:
    """Keys and values of one token in one layer; packed ones with a scale and an offset for each group."""
    if layer.kv_bits is None:
        return 2 * layer.kv_heads * layer.head_dim * width
    groups = layer.head_dim // (packed_group(layer.head_dim) or 1)
    return 2 * layer.kv_heads * (layer.head_dim * layer.kv_bits // 8 + 2 * width * groups)


def buffer_rows(window: int, back: int) -> int:
    """Rows that a sliding layer's cache holds room for (`models.cache.WindowCache`)."""
    return window - 1 + back + max(_SPARE_ROWS, window // 2)


def workspace(target: TargetConfig, width: int) -> int:
    """Results that live at once in a pass of `PASS_ROWS` rows: residual stream, attention, widest feed-forward.

    Attention scores are not among them: the CPU writes them out (more for a long context), and Metal does not.
    """
    attention = max(layer.heads + 2 * layer.kv_heads for layer in target.attention) * target.attention[0].head_dim
    dense = 3 * target.intermediate_size
    sparse = 0
    if target.experts is not None:
        routed = target.experts.per_token * (3 * target.experts.intermediate_size + target.hidden_size)
        sparse = routed + 3 * target.experts.shared_intermediate_size
    row = 4 * target.hidden_size + 3 * attention + max(dense, sparse)
    return width * (LAYERS_ALIVE * PASS_ROWS * row + LOGIT_ROWS * target.vocab_size)


def check_memory(name: str, need: Footprint, limit: Limit, context_length: int, smaller: str = "") -> None:
    """Refuse a pair that cannot run here, before its weights are read; `smaller` is a flag that shrinks its weights.

    Raises:
        NotEnoughMemory: the sums, and what would help.
    """
    tokens = min(LEAST_TOKENS, context_length)
    needed = need.least(tokens)
    if needed <= limit.size:
        return
    parts = {
        "weights": need.target,
        "speculator": need.speculator,
        f"one conversation of {tokens} tokens": need.session(tokens),
        "one pass": need.workspace,
    }
    told = ", ".join(f"{what} {gib(size)}" for what, size in parts.items() if size)
    saved = f" {smaller}," if smaller else ""
    saved += " --speculator none," if need.speculator and needed - need.speculator <= limit.size else ""
    raise NotEnoughMemory(
        f"{name} needs {gib(needed)} of memory ({told}), and there are {gib(limit.size)} ({limit.source}). Take a "
        f"smaller quantisation,{saved} close what else uses memory, or try it all the same with --memory-limit "
        f"{-(-needed // GIB)} (GiB)"
    )


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB" if size >= GIB // 10 else f"{size / 2**20:.1f} MiB"
