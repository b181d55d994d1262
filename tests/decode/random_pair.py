"""A small random pair on the real networks: what is asked of it, and what memory it holds."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from models.contract import Speculator, Target
from models.decode.session import Request, Sampling, Speculation

PROMPT = tuple(i * i % 89 + 3 for i in range(150))
SAMPLINGS = [Sampling(), Sampling(temperature=1.2, top_k=30, top_p=0.9, min_p=0.02, seed=5)]


LARGE = 1 << 30


@dataclass(frozen=True)
class Pair:
    target: Target
    speculator: Speculator


def asked(
    prompt: Sequence[int],
    sampling: Sampling = SAMPLINGS[0],
    *,
    speculation: Speculation = "always",
    marks: Sequence[int] = (),
    max_tokens: int = 40,
) -> Request:
    return Request(tuple(prompt), sampling, max_tokens, frozenset(), speculation, marks=tuple(marks))


def active_memory() -> int:
    """Bytes, once rows that were run for nothing have left the device."""
    mx.synchronize()
    gc.collect()
    return mx.get_active_memory()
