"""Measure an agent's conversation: `python -m tests.bench.agent [--json FILE] [--check]`.

What is cached of each request against what could be, and the time to the first text against a server that keeps
nothing; the same for mlx-lm's server; and the first answer after a restart from a folder of kept prompts.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from models.generation import read_generation
from models.tokenizer import Tokenizer
from tests.bench.agent.conversation import requests, script
from tests.bench.agent.reckoning import Asked, Ids, Past, came_to, heard_well
from tests.bench.checkpoint import copied
from tests.bench.client import Body
from tests.bench.goals import Figures, Goal, judged
from tests.bench.running import parser, run
from tests.bench.servers import Command, Server, mlx_lm, ours, serving

SYSTEM_CHARACTERS = 8_000
"""With the tools about six thousand tokens."""
CONTEXT = 16_384
COLD_EVERY = 3
"""Of so many requests, one is also asked where nothing is kept; edits and forks always are."""

GOALS = (
    Goal("cached over what could be", lambda f: f["ours"]["reuse"], 0.95, at_least=True),
    Goal("warm over cold first text", lambda f: f["ours"]["warm_over_cold"], 0.15, at_least=False),
    Goal("first text after a restart over cold", lambda f: f["restart"]["ratio"], 0.3, at_least=False),
)


def encoder(checkpoint: Path) -> Tokenizer:
    """What renders and counts prompts here."""
    return Tokenizer.load(checkpoint, eos_ids=read_generation(checkpoint).eos_ids)


def trace(warm: Server, cold: Server | None, tokenizer: Tokenizer, seed: str) -> list[Asked]:
    """One conversation with a server that keeps prompts; `cold` keeps none, and gets some of the requests too."""

    def encode(body: Body, after: Sequence[Mapping[str, Any]]) -> Ids:
        text = tokenizer.render([*body["messages"], *after], body["tools"], **body["chat_template_kwargs"])
        # What the template opens after a finished answer is not part of it.
        return tokenizer.encode(text.removesuffix("<assistant><think>") if after else text)

    past, found = Past(encode), list[Asked]()

    def answer(kind: str, body: Body) -> dict[str, Any]:
        prompt, ideal = past.ideal(body)
        heard = heard_well(warm.ask(body), warm.command.name)
        compared = cold is not None and (len(found) % COLD_EVERY == 1 or kind in ("edit", "fork"))
        other = heard_well(cold.ask(body), cold.command.name).first if cold is not None and compared else None
        found.append(Asked(kind, prompt, ideal, heard.cached, heard.first, other))
        past.add(body, heard.message)
        return heard.message

    requests(script(seed, SYSTEM_CHARACTERS)).play(answer)
    return found


def restart(command: Command, cold: Server, library: Path | None, seed: str) -> dict[str, float]:
    """The first text of a second turn, when the server was started anew between the two."""
    told = requests(script(seed, SYSTEM_CHARACTERS))
    told.messages.append({"role": "user", "content": "Hello"})
    with serving(command, library) as server:
        told.messages.append(heard_well(server.ask(told.body()), command.name).message)
    told.messages.append({"role": "user", "content": "Thanks!"})
    with serving(command, library) as server:
        heard = heard_well(server.ask(told.body()), command.name)
    other = heard_well(cold.ask(told.body()), cold.command.name)
    return {
        "first_seconds": heard.first,
        "cold_seconds": other.first,
        "ratio": heard.first / other.first,
        "cached": heard.cached,
    }


def measured(library: Path | None, options: argparse.Namespace) -> Figures:
    """Everything with one BLAS."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = copied(Path(folder), context=CONTEXT)
        tokenizer, found = encoder(checkpoint), dict[str, list[Asked]]()
        figures: dict[str, Any] = {}
        with serving(ours("cold", checkpoint, "--prefix-cache-gib", "0"), library) as cold:
            for command, other in ((ours("ours", checkpoint), cold), (mlx_lm(checkpoint), None)):
                with serving(command, library) as server:
                    for repeat in range(options.repeats):
                        asked = trace(server, other, tokenizer, str(repeat))
                        found.setdefault(command.name, []).extend(asked if repeat == 0 else asked[1:])
            kept = ours("restarted", checkpoint, "--cache-dir", f"{folder}/kept")
            figures["restart"] = restart(kept, cold, library, "restart")
        return figures | {name: came_to(asked) for name, asked in found.items()}


def table(figures: Figures) -> Mapping[str, str]:
    """One run as text."""
    shown: dict[str, str] = {}
    for name in ("ours", "mlx_lm"):
        own = figures[name]
        kinds = ", ".join(f"{kind} {value:.3f}" for kind, value in own["reuse_by_kind"].items())
        shown[f"{name}: cached / could be"] = f"{own['reuse']:.3f} ({kinds})"
        shown[f"{name}: seconds to the first text"] = f"{own['warm_seconds']:.3f}"
        if "warm_over_cold" in own:
            kinds = ", ".join(f"{kind} {value:.3f}" for kind, value in own["warm_over_cold_by_kind"].items())
            over = f"{name}: over {own['cold_seconds']:.3f} where nothing is kept"
            shown[over] = f"{own['warm_over_cold']:.3f} ({kinds})"
    lengths = figures["ours"]["prompt_tokens"]
    shown["prompts"] = f"{figures['ours']['requests']} requests of {min(lengths)} to {max(lengths)} tokens"
    again = figures["restart"]
    shown["first text after a restart / cold"] = (
        f"{again['first_seconds']:.3f} / {again['cold_seconds']:.3f} s = {again['ratio']:.3f}, "
        f"{again['cached']} tokens from the folder"
    )
    return shown


def main() -> None:
    """Measure, print, write, check."""
    options = parser("agent", "Measure an agent's conversation.", repeats=1).parse_args()
    run(options, measured, table, lambda runs: judged(runs, GOALS))


if __name__ == "__main__":
    main()
