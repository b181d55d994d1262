"""Whether speculation changes text: greedy answers past the window, ours and the peers', against plain decoding.

A peer's drafter is what it takes: mlx-lm wants a second language model, so it gets the target with noise in its
weights; mlx-vlm gets the embedded speculator.
"""

import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.generate import generate_step, speculative_generate_step

from models.contract import Speculator, Target
from models.decode.batch import Batch
from models.decode.flight import read_ids
from models.decode.session import Request, Sampling, Speculation
from tests.bench.arms import Prompt, decode
from tests.bench.checkpoint import copied

PROMPTS, TOKENS = 20, 256
NOISE = 0.02
"""Of each weight, for the drafter of mlx-lm: enough that some of its drafts are wrong."""
ABSENT = "mlx-vlm is not installed (pip install -e '.[bench]')"

Arm = Callable[[Prompt], Sequence[int]]


def shares(target: Target, speculator: Speculator, theirs: nn.Module, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """By engine: the share of tokens before the first one unlike that engine's own plain greedy decoding.

    Args:
        target: ours.
        speculator: ours.
        theirs: mlx-lm's model of the same target.
        prompts: longer than the window.
    """
    batch = Batch(target, speculator)
    arms: dict[str, tuple[Arm, Arm]] = {
        "ours": (_ours(batch, "off"), _ours(batch, "always")),
        "mlx_lm": (_plain(theirs), _mlx_lm(theirs)),
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("mlx_vlm") is not None:
            arms["mlx_vlm"] = (_plain(theirs), _mlx_vlm(copied(Path(folder))))
        else:
            found["mlx_vlm"] = ABSENT
        for name, (plainly, speculating) in arms.items():
            kept = [_agreed(plainly(prompt), speculating(prompt)) for prompt in prompts[:PROMPTS]]
            found[name] = sum(kept) / (len(kept) * TOKENS)
    return found


def _agreed(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one[:TOKENS], other[:TOKENS], strict=True)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), TOKENS)


def _ours(batch: Batch, speculation: Speculation) -> Arm:
    def answer(prompt: Prompt) -> Sequence[int]:
        return decode(batch, Request(prompt, Sampling(), TOKENS, frozenset(), speculation))[1]

    return answer


def _plain(model: nn.Module) -> Arm:
    """mlx-lm's plain loop."""
    return lambda prompt: [int(token) for token, _ in generate_step(mx.array(prompt), model, max_tokens=TOKENS)]


def _mlx_lm(model: nn.Module) -> Arm:
    drafter = deepcopy(model)
    mx.random.seed(0)
    noisy = tree_map(lambda weight: weight * (1 + NOISE * mx.random.normal(weight.shape)), model.parameters())
    drafter.update(noisy)
    mx.eval(drafter.parameters())

    def answer(prompt: Prompt) -> Sequence[int]:
        steps = speculative_generate_step(mx.array(prompt), model, drafter, num_draft_tokens=4, max_tokens=TOKENS)
        return [int(token) for token, _, _ in steps]

    return answer


def _mlx_vlm(checkpoint: Path) -> Arm:
    from mlx_vlm.speculative.dflash import _dflash_rounds
    from mlx_vlm.speculative.drafters import load_drafter
    from mlx_vlm.utils import load_model

    model, (drafter, _) = load_model(checkpoint), load_drafter(str(checkpoint / "speculator"))

    def greedy(logits: mx.array) -> mx.array:
        return mx.argmax(logits, axis=-1)

    def answer(prompt: Prompt) -> Sequence[int]:
        cache = model.language_model.make_cache()
        layers = list(drafter.config.target_layer_ids)
        read = model.language_model(mx.array([prompt]), cache=cache, capture_layer_ids=layers)
        (first,) = read_ids(greedy(read.logits[:, -1]))
        hidden = mx.concatenate(read.hidden_states, axis=-1)
        rounds = _dflash_rounds(model, drafter, cache, hidden, first_bonus=first, max_tokens=TOKENS, sampler=greedy)
        return [first, *(int(token) for token, _ in rounds)]

    return answer
