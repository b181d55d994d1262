"""Mixed traffic against a running server: every dialect, streamed and not, tools, leavers, and wrong bodies."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.outcome import Outcome, ask, request_bytes

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PROBE: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
    "seed": 5,
    "temperature": 1,
    "max_tokens": 24,
}
"""Asked again and again; a seed is a text."""
TOKENS = 24


@dataclass
class Account:
    """What a time of traffic came to."""

    tried: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    """answered, cut, hung, left, and refusals by their code."""
    answered: int = 0
    faults: list[str] = field(default_factory=list)
    probe: str | None = None

    def note(self, kind: str, outcome: Outcome) -> None:
        """Count one request."""
        self.tried[kind] += 1
        self.ends[f"refused: {outcome.code}" if outcome.end == "refused" else outcome.end] += 1
        self.answered += outcome.end == "answered"
        if outcome.end in ("cut", "hung") or (outcome.status or 0) >= 500:
            self.faults.append(f"{kind}: {outcome.end}, status {outcome.status}, {outcome.body[:200]!r}")
        if kind == "probe" and outcome.end == "answered":
            self.probe = self.probe or outcome.text
            if outcome.text != self.probe:
                self.faults.append(f"the probe said {outcome.text!r}, and at first {self.probe!r}")


def chat(dice: random.Random) -> bytes:
    """A conversation whose beginning others share."""
    system = "You are a careful assistant. " * dice.choice((1, 20, 60))
    messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Number {dice.randrange(50)}?"}]
    return request_bytes({"messages": messages, "max_tokens": TOKENS, "stream": dice.random() < 0.5})


def tools(dice: random.Random) -> bytes:
    """A forced call."""
    asks = [{"role": "user", "content": f"What is the weather in place {dice.randrange(9)}?"}]
    body = {"messages": asks, "tools": [TOOL], "tool_choice": "required", "max_tokens": 60}
    return request_bytes(body | {"stream": dice.random() < 0.5})


def anthropic(dice: random.Random) -> bytes:
    """Anthropic's dialect."""
    asks = [{"role": "user", "content": f"Say {dice.randrange(99)}."}]
    body = {"model": "x", "messages": asks, "max_tokens": TOKENS, "stream": dice.random() < 0.5}
    return request_bytes(body, "/v1/messages")


def responses(dice: random.Random) -> bytes:
    """OpenAI's newer dialect."""
    body = {"input": f"Say {dice.randrange(99)}.", "max_output_tokens": TOKENS, "stream": dice.random() < 0.5}
    return request_bytes(body, "/v1/responses")


def completion(dice: random.Random) -> bytes:
    """Two prompts, two answers each."""
    body = {"prompt": [f"a{dice.randrange(9)} ", "b"], "n": 2, "max_tokens": TOKENS, "logprobs": 2}
    return request_bytes(body, "/v1/completions")


def wrong(dice: random.Random) -> bytes:
    """What must be refused."""
    return request_bytes(dice.choice((b"{", b"[]", b'{"messages": 5}', b"[" * 9999, b'{"messages": [], "n": 99}')))


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "chat": chat,
    "tools": tools,
    "messages": anthropic,
    "responses": responses,
    "completions": completion,
    "wrong": wrong,
    "probe": lambda _: request_bytes(PROBE),
}


async def request(port: int, dice: random.Random, account: Account) -> None:
    """One request of any kind; some clients do not wait for its end."""
    kind = dice.choice(list(KINDS))
    data = KINDS[kind](dice)
    if kind != "probe" and dice.random() < 0.15:
        await ask(port, data, seconds=dice.random() / 4)
        account.tried["left"] += 1
    else:
        account.note(kind, await ask(port, data, seconds=120))


async def client(port: int, seed: int, until: float, account: Account) -> None:
    """One client: one request after another until the loop's clock says so."""
    dice, clock = random.Random(seed), asyncio.get_running_loop().time
    while clock() < until:
        await request(port, dice, account)
