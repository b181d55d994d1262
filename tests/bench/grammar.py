"""`python -m tests.bench.grammar`: what masks cost over a wide vocabulary, and what they do to blocks of the pair."""

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
from llguidance import LLTokenizer

from models.decode.constraint import Block, Grammar, Grammars, Masks
from models.decode.session import Request, Sampling, Stats
from models.runtime import Runtime, load_runtime
from models.tiny.recipe.chats import Chat, held_out
from models.tiny.recipe.score import turns_of
from tests.bench.vocabulary import SIZE, wide_tokenizer
from tools.grammar import Calls, grammar
from tools.laguna import thinking_open
from tools.schema import declared

ROWS = 16
MASKS_US, SHARE = 1000.0, 0.05
"""Goals: the median of the masks for all rows, and their part of a round's time."""
TEXT = {"type": "string"}
CHANGE = {"type": "object", "properties": {"line": {"type": "integer"}, "old": TEXT, "new": TEXT}, "required": ["line"]}
ARMS = ("free", "strict", "required")
EDIT = {
    "type": "function",
    "function": {
        "name": "edit_file",
        "parameters": {
            "type": "object",
            "properties": {"path": TEXT, "text": TEXT, "changes": {"type": "array", "items": CHANGE}},
            "required": ["path", "text", "changes"],
        },
    },
}
CODE = "def mean(values):\n    for value in values:\n        if value < 0:\n            raise ValueError(value)\n"
CHANGES = [{"line": line, "old": f"old line {line} of it", "new": "a new, longer line"} for line in range(9)]
PARTS = {
    "tags": "edit_file<arg_key>path</arg_key><arg_value>src/mean.py</arg_value><arg_key>text</arg_key><arg_value>",
    "text": CODE * 3,
    "json": f"</arg_value><arg_key>changes</arg_key><arg_value>{json.dumps(CHANGES)}</arg_value>",
}


def mask_costs(repeats: int) -> dict[str, Any]:
    """Microseconds for the masks of 16 rows of one call: tags, raw text, JSON; in a new grammar and in a used one."""
    text = wide_tokenizer()
    began = time.perf_counter()
    grammars = Grammars(text, SIZE, [2, 24])
    loaded = time.perf_counter() - began
    began = time.perf_counter()
    compiled = grammars.compile(grammar(thinking=False, calls=Calls([EDIT], required=True)))
    took = time.perf_counter() - began
    pieces = LLTokenizer(text, n_vocab=SIZE, eos_token=[2, 24])
    parts = {name: pieces.greedy_tokenize(part) for name, part in PARTS.items()}
    runs = [_along(compiled, parts) for _ in range(repeats + 1)]
    used = {name: [cost for run in runs[1:] for cost in run[name]] for name in parts}
    every = [cost for costs in used.values() for cost in costs]
    return {
        "vocabulary": SIZE,
        "seconds_to_read_the_tokenizer": loaded,
        "milliseconds_to_compile": took * 1e3,
        "new": {name: _spread(costs) for name, costs in runs[0].items()},
        "used": {name: _spread(costs) for name, costs in used.items()},
        "median_us": statistics.median(every),
    }


def _along(compiled: Grammar, parts: dict[str, list[int]]) -> dict[str, list[float]]:
    """Masks of the block that starts at each place of the call."""
    masks, constraint = Masks(SIZE), compiled.start()
    constraint.keep([25])
    flat, costs, place = [token for ids in parts.values() for token in ids], dict[str, list[float]](), 0
    for name, ids in parts.items():
        for token in ids:
            block = Block(constraint, flat[place : place + ROWS - 1])
            began = time.perf_counter()
            masks.words([block])
            costs.setdefault(name, []).append((time.perf_counter() - began) * 1e6)
            constraint.keep([token])
            place += 1
    return costs


def _spread(costs: Sequence[float]) -> dict[str, float]:
    return {"median_us": statistics.median(costs), "max_us": max(costs)}


@dataclass
class Answered:
    """One turn, decoded."""

    ids: list[int]
    stats: Stats
    seconds: float
    masking: float
    """Seconds in which the host filled masks, the device verifying meanwhile."""


class Clock:
    """Counts the seconds that masks take."""

    def __init__(self) -> None:
        self.spent = 0.0

    def watch(self) -> None:
        """Time every mask from now on."""
        filled, clock = Masks.words, self

        def words(masks: Masks, blocks: Sequence[Block]) -> Any:  # noqa: ANN401
            began = time.perf_counter()
            made = filled(masks, blocks)
            clock.spent += time.perf_counter() - began
            return made

        Masks.words = words  # ty: ignore


def rounds(chats: int, temperature: float) -> dict[str, Any]:
    """Turns of held-out chats that call: free, with strict tools, and with a call required; full blocks."""
    runtime, clock = load_runtime(), Clock()
    clock.watch()
    answers: dict[str, list[Answered]] = {arm: [] for arm in ARMS}
    for place, (chat, prompt) in enumerate(_calling(chats)):
        sampling = Sampling(temperature, seed=place)
        for arm in sorted(ARMS, reverse=place % 2 == 1):
            answers[arm].append(_answered(runtime, chat, prompt, arm, sampling, clock))
    pairs = list(zip(answers["free"], answers["strict"], strict=True))
    alike = [(free, strict) for free, strict in pairs if free.ids == strict.ids]
    return {
        "temperature": temperature,
        "turns": len(answers["free"]),
        "texts_the_strict_grammar_leaves_alone": len(alike),
        "accepted_a_round": {arm: _accepted(found) for arm, found in answers.items()},
        "masks_share_of_a_round": _share(answers["strict"]),
        "time_strict_over_free": statistics.median(strict.seconds / free.seconds for free, strict in alike),
    }


def _calling(chats: int) -> Iterator[tuple[Chat, str]]:
    for index in range(chats):
        chat = held_out(index)
        yield from ((chat, prompt) for kind, prompt, _ in turns_of(chat) if kind == "calls")


def _answered(runtime: Runtime, chat: Chat, prompt: str, arm: str, sampling: Sampling, clock: Clock) -> Answered:
    assert runtime.grammars is not None
    strict = frozenset(declared(chat.tools)) if arm == "strict" else frozenset[str]()
    held = Calls(chat.tools, required=arm == "required", strict=strict)
    text = grammar(thinking=thinking_open(prompt), calls=held)
    batch, ids = runtime.batch(), tuple(runtime.tokenizer.encode(prompt))
    compiled = None if arm == "free" else runtime.grammars.compile(text)
    session = batch.add(Request(ids, sampling, 160, runtime.tokenizer.eos_ids, "always", grammar=compiled))
    clock.spent, written = 0.0, list[int]()
    while batch.sessions:
        for update in batch.step():
            written += update.ids
    return Answered(written, session.stats, session.stats.decode_seconds, clock.spent)


def _accepted(answers: Sequence[Answered]) -> float:
    return sum(one.stats.accepted for one in answers) / sum(one.stats.rounds for one in answers)


def _share(answers: Sequence[Answered]) -> float:
    return sum(one.masking for one in answers) / sum(one.seconds for one in answers)


@click.command()
@click.option("--chats", default=20, show_default=True, help="Held-out chats to answer.")
@click.option("--repeats", default=3, show_default=True, help="Walks over the wide vocabulary.")
@click.option("--check", is_flag=True, help=f"Fail above {MASKS_US:g} µs for the masks, or {SHARE:.0%} of a round.")
def main(chats: int, repeats: int, check: bool) -> None:
    """Print the figures as JSON."""
    masks, answered = mask_costs(repeats), [rounds(chats, temperature) for temperature in (0.0, 0.7)]
    click.echo(json.dumps({"masks": masks, "rounds": answered}, indent=2))
    share = max(one["masks_share_of_a_round"] for one in answered)
    if check and (masks["median_us"] > MASKS_US or share > SHARE):
        raise click.ClickException(f"masks take {masks['median_us']:.0f} µs and {share:.1%} of a round")


if __name__ == "__main__":
    main()
