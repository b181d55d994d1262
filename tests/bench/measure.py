"""One process, one BLAS: every figure of the decoding loop, as JSON on standard output."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice, zip_longest
from typing import Any

import mlx.core as mx
from mlx_lm.utils import load_model

from models.checkpoint import EMBEDDED, find_checkpoint
from models.contract import Speculator, Target
from models.decode.batch import Batch
from models.decode.flight import read_ids
from models.decode.session import Request, Sampling, Speculation
from models.decode.width import candidates
from models.runtime import load_runtime
from models.timing import calibrate
from models.tiny.recipe.chats import held_out, held_out_chance
from models.tiny.recipe.score import turns_of
from server.bench.answers import requests
from server.bench.prompts import ASKS
from tests.bench.arms import Answer, Prompt, Task, mlx_lm, ours
from tests.bench.cache_bytes import memory
from tests.bench.coupled import coupled
from tests.bench.growth import growth
from tests.bench.lossless import PROMPTS, shares
from tests.bench.rollback import rollback_seconds
from tests.bench.still import StillSpeculator, StillTarget

MAX_TOKENS = 160
SAMPLED = (0.7, 1.2)
CONTEXTS = (64, 256, 1024, 3072)
"""Tokens before the rounds that are timed."""
PAST_WINDOW = 128
"""Twice the embedded target's window."""
CHANCES = 8
"""Chats of chance that are measured."""
SPECULATION: tuple[Speculation, ...] = ("off", "auto", "always")


@dataclass(frozen=True)
class Pair:
    """What is measured: our networks, and mlx-lm's own model of the same target."""

    target: Target
    speculator: Speculator
    hidden: int
    theirs: Any
    task: Task
    open: Task
    """Prompts that the embedded pair was not taught to answer, so that its target is less sure of what it says."""
    chance: Task
    """Prompts whose answers nobody can foretell, which it was taught: digits, bits and dice."""
    encode: Callable[[str], list[int]]


def load(model: str | None, chats: int) -> Pair:
    """The pair and the prompts: every assistant turn of the first held-out chats."""
    runtime = load_runtime(model)
    if runtime.speculator is None:
        raise SystemExit(f"{model}: {runtime.speculation_off}; there is nothing to measure")
    theirs = load_model(find_checkpoint(EMBEDDED if model is None else model))[0]
    theirs.set_dtype(mx.float32)
    mx.eval(theirs.parameters())
    texts = [prompt for index in range(chats) for _, prompt, _ in turns_of(held_out(index))]
    prompts = [tuple(runtime.tokenizer.encode(text)) for text in texts]
    task = Task(prompts, runtime.tokenizer.eos_ids, MAX_TOKENS)
    asked = [request("off").prompt for _, request in requests(runtime, ASKS, MAX_TOKENS)]
    others = Task(asked, task.stop_ids, MAX_TOKENS)
    rolled = [prompt for index in range(CHANCES) for _, prompt, _ in turns_of(held_out_chance(index))]
    chance = Task([tuple(runtime.tokenizer.encode(text)) for text in rolled], task.stop_ids, MAX_TOKENS)
    hidden = theirs.args.hidden_size
    return Pair(runtime.target, runtime.speculator, hidden, theirs, task, others, chance, runtime.tokenizer.encode)


def race(pair: Pair, repeats: int) -> dict[str, list[list[Answer]]]:
    """Every arm over every prompt, in turn prompt by prompt; answers by arm, repeat and prompt."""
    runs: dict[str, list[list[Answer]]] = {}
    for repeat in range(repeats):
        arms: dict[str, Callable[[Prompt], Answer]] = {"mlx_lm": mlx_lm(pair.theirs, pair.task)}
        for speculation in SPECULATION:
            arms[speculation] = ours(pair.target, pair.speculator, pair.task, speculation, Sampling())
        for place, prompt in enumerate(pair.task.prompts):
            for name in sorted(arms, reverse=(repeat + place) % 2 == 1):
                runs.setdefault(name, [[] for _ in range(repeats)])[repeat].append(arms[name](prompt))
    return runs


def rate(answers: Sequence[Answer]) -> float:
    """Tokens a second after each answer's first."""
    return sum(len(answer.ids) - 1 for answer in answers) / sum(answer.seconds for answer in answers)


def speeds(runs: dict[str, list[list[Answer]]]) -> dict[str, Any]:
    """Medians over the repeats: rates, and ratios within a repeat."""
    rates = {arm: [rate(answers) for answers in repeats] for arm, repeats in runs.items()}
    return {
        "tokens_per_second": {arm: statistics.median(values) for arm, values in rates.items()},
        "tokens_per_second_range": {arm: (min(values), max(values)) for arm, values in rates.items()},
        "ratios": {
            "off_to_mlx_lm": _ratio(rates["off"], rates["mlx_lm"]),
            "auto_to_off": _ratio(rates["auto"], rates["off"]),
            "always_to_off": _ratio(rates["always"], rates["off"]),
        },
        "texts_that_differ": {
            arm: sum(a.ids != b.ids for a, b in zip(repeats[0], runs["off"][0], strict=True))
            for arm, repeats in runs.items()
            if arm != "off"
        },
    }


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def acceptance(answers: Sequence[Answer]) -> dict[str, Any]:
    """What drafting did over these answers."""
    stats = [answer.stats for answer in answers if answer.stats is not None]
    rounds = sum(one.rounds for one in stats)
    by_depth = [sum(column) for column in zip_longest(*(one.accepted_by_depth for one in stats), fillvalue=0)]
    return {
        "rounds": rounds,
        "drafted": sum(one.drafted for one in stats),
        "tokens": sum(one.completion_tokens for one in stats),
        "accepted_per_round": sum(one.accepted for one in stats) / max(rounds, 1),
        "accepted_per_round_by_depth": [round(count / max(rounds, 1), 3) for count in by_depth],
    }


def long_prompts(pair: Pair) -> list[Prompt]:
    """Prompts past the embedded target's window, of other chats than the timed ones."""
    texts = (prompt for index in count(1000) for _, prompt, _ in turns_of(held_out(index)))
    ids = (tuple(pair.encode(text)) for text in texts)
    return list(islice((prompt for prompt in ids if len(prompt) > PAST_WINDOW), PROMPTS))


@dataclass
class Loop:
    """CPU seconds of decoding rounds, and the host reads of all steps."""

    rounds: int = 0
    seconds: float = 0.0
    steps: int = 0
    reads: int = 0

    def read(self, packed: mx.array) -> list[int]:
        """A host read that is counted."""
        self.reads += 1
        return read_ids(packed)


def loop(batch_over: Callable[[Callable[[mx.array], list[int]]], Batch], task: Task, speculation: Speculation) -> Loop:
    """Decode all prompts and count; CPU time, since what others do on the machine must not look like the loop's."""
    found = Loop()
    batch = batch_over(found.read)
    for prompt in task.prompts:
        session = batch.add(Request(prompt, Sampling(), task.max_tokens, task.stop_ids, speculation))
        while session.finish is None:
            counted, began = bool(session.emitted), time.process_time()
            batch.step()
            found.steps += 1
            found.seconds += (time.process_time() - began) * counted
            found.rounds += counted
    return found


def overhead(pair: Pair, repeats: int) -> dict[str, Any]:
    """The loop's own CPU time in a round, over networks that cost nothing, in plain steps of the real ones."""
    still = StillTarget(pair.target, pair.hidden)
    drafter = StillSpeculator(pair.speculator, pair.target.vocab_size)
    real = [loop(lambda read: Batch(pair.target, pair.speculator, read=read), pair.task, "off") for _ in range(repeats)]
    plain_step = statistics.median(one.seconds / one.rounds for one in real)
    runs = {
        name: [loop(lambda read: Batch(still, drafter, read=read), pair.task, name) for _ in range(repeats)]
        for name in SPECULATION
    }
    return {
        "plain_step_cpu_ms": plain_step * 1e3,
        "overhead": {n: statistics.median(r.seconds / r.rounds for r in own) / plain_step for n, own in runs.items()},
        "reads_per_step": max(one.reads / one.steps for own in [real, *runs.values()] for one in own),
    }


def by_context(pair: Pair) -> list[dict[str, Any]]:
    """Seconds a round, by rows and context."""
    block = pair.speculator.block_size
    costs = calibrate(pair.target, pair.speculator, pair.task.prompts[0], widths=candidates(block), contexts=CONTEXTS)
    return [asdict(cost) for cost in costs]


def figures(pair: Pair, repeats: int, *, exact: bool) -> dict[str, Any]:
    """Everything of one BLAS; with the exact one, also what speculation changes."""
    runs = race(pair, repeats)
    found: dict[str, Any] = speeds(runs) | {"greedy": {arm: acceptance(runs[arm][0]) for arm in ("always", "auto")}}
    for temperature in SAMPLED:
        arm = ours(pair.target, pair.speculator, pair.task, "always", Sampling(temperature, seed=1))
        found[f"temperature {temperature}"] = acceptance([arm(prompt) for prompt in pair.task.prompts])
    return (
        found
        | overhead(pair, repeats)
        | {
            "gemm_gflops": gemm_gflops(),
            "prompts": len(pair.task.prompts),
            "coupled": coupled(
                pair.target, pair.speculator, {"chats": pair.task, "open": pair.open, "chance": pair.chance}
            ),
            "calibration": by_context(pair),
            "growth": growth(),
            "memory": memory(),
            "lossless": shares(pair.target, pair.speculator, pair.theirs, long_prompts(pair)) if exact else None,
            "rollback": rollback_seconds(),
        }
    )


def gemm_gflops(size: int = 384) -> float:
    """Which BLAS is at work shows in a square float32 product."""
    a = mx.random.normal((size, size))
    mx.eval(a @ a)
    began = time.perf_counter()
    mx.eval([a @ a for _ in range(3)])
    return 6 * size**3 / (time.perf_counter() - began) / 1e9


def main() -> None:
    """`python -m tests.bench.measure MODEL CHATS REPEATS EXACT`; an empty MODEL is the embedded pair."""
    model, chats, repeats, exact = sys.argv[1:]
    print(json.dumps(figures(load(model or None, int(chats)), int(repeats), exact=bool(int(exact)))))
    mx.clear_streams()


if __name__ == "__main__":
    main()
