"""What takes long answers: the server's share of a token's time, equal streams, and a long prompt beside others."""

import statistics
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from models.decode.session import Speculation
from models.tiny.recipe.words import PHRASES
from tests.bench.asks import body
from tests.bench.bare import Bare, bare_loop
from tests.bench.client import Body
from tests.bench.http.waves import beside, in_turn, together
from tests.bench.servers import Server, ours, serving

ANSWER, LONG_ANSWER = 256, 1536
PAIRS = 12
"""Answers a repeat that are compared with the bare loop's: a second each, and no second is like another."""
ALONE = 4
"""Answers of one stream: with fewer its rate is that of a moment."""
OVER_BARE: tuple[Speculation, ...] = ("off", "always")
"""Ways of decoding whose rounds are the same in both processes."""
EVEN = (4, 8)
PROMPT_CHARACTERS = 6_700
"""About three thousand tokens of the embedded pair's."""


def asked(seed: str, tokens: int, characters: int = 300) -> Body:
    """A request for `tokens` tokens whose prompt nobody else has."""
    rng = Random(seed)
    text = f"Say {seed}."
    while len(text) < characters:
        text = f"{text} {rng.choice(PHRASES)}"
    return body([{"role": "user", "content": text}], [], thinking=False) | {"max_tokens": tokens}


def long_answers(endless: Path, library: Path | None, repeats: int) -> dict[str, Any]:
    """All of it, over a checkpoint whose answers end at their limit."""
    found: dict[str, list[float]] = {}
    with (
        bare_loop(endless, library) as bare,
        serving(ours("auto", endless), library) as server,
    ):
        besides = [_beside(server, repeat) for repeat in range(repeats)]
        for repeat in range(repeats):
            for speculation, pair in product(OVER_BARE, range(PAIRS)):
                one = {**asked(f"bare {repeat} {pair}", ANSWER), "speculation": speculation}
                found.setdefault(speculation, []).append(_over_bare(server, bare, one, speculation, pair % 2 == 0))
            alone = side_by_side(ALONE, -1 - repeat)
            answered = bare.answer(alone, "off")
            served = {1: in_turn(server, alone)}
            looped = {1: answered["tokens"] / answered["seconds"]}
            for streams in EVEN:
                served[streams] = together(server, side_by_side(streams, repeat)).rate
                looped[streams] = bare.rate(side_by_side(streams, repeat), "off")
            for streams in EVEN:
                even = together(server, [asked(f"even {streams} {repeat}", ANSWER)] * streams)
                found.setdefault(f"even {streams}", []).append(even.evenness)
                found.setdefault(f"served {streams}", []).append(served[streams] / served[1])
                found.setdefault(f"bare {streams}", []).append(looped[streams] / looped[1])
    middle = {name: statistics.median(values) for name, values in found.items()}
    return {
        "over_bare": {name: middle[name] for name in OVER_BARE},
        "evenness": {str(streams): middle[f"even {streams}"] for streams in EVEN},
        "long_aggregate": {
            which: {str(streams): middle[f"{which} {streams}"] for streams in EVEN} for which in ("served", "bare")
        },
        "beside": {key: statistics.median(one[key] for one in besides) for key in besides[0]},
    }


def side_by_side(streams: int, repeat: int) -> list[Body]:
    """So many plain requests of one length, with prompts of their own."""
    bodies = [asked(f"side by side {streams} {repeat} {place}", ANSWER) for place in range(streams)]
    return [{**one, "speculation": "off"} for one in bodies]


def _over_bare(server: Server, bare: Bare, one: Body, speculation: Speculation, server_first: bool) -> float:
    """Seconds a token of the server's over the bare loop's, whichever of them goes first."""
    served = _seconds_per_token(server, one) if server_first else None
    looped = bare.answer([one], speculation)
    served = _seconds_per_token(server, one) if served is None else served
    return served / (looped["seconds"] / looped["tokens"])


def _seconds_per_token(server: Server, one: Body) -> float:
    """Between the first frame with text and the last."""
    heard = server.ask(one)
    if heard.error is not None:
        raise RuntimeError(f"{server.command.name}: {heard.error}")
    return (heard.whole - heard.first) / (server.tokens(heard) - 1)


def _beside(server: Server, repeat: int) -> dict[str, float]:
    # Blocks differ in width from round to round: only plain streams have a usual gap.
    running = [{**asked(f"beside {repeat} {place}", LONG_ANSWER), "speculation": "off"} for place in range(2)]
    long = asked(f"long {repeat}", 8, PROMPT_CHARACTERS)
    found = beside(server, running, long, asked(f"short {repeat}", 8), settle=0.5)
    return {
        "role": found.role,
        "prefill": found.prefill,
        "usual": found.usual,
        "longest": found.longest,
        "gap_ratio": found.longest / found.usual,
    }
