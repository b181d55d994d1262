"""Requests that run side by side against one server, and what is measured of them."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.bench.client import Body, Heard
from tests.bench.servers import Server


@dataclass(frozen=True)
class Wave:
    """Requests of which so many ran at a time: where one was answered, the next was asked."""

    seconds: float
    tokens: int
    errors: tuple[str, ...]
    messages: tuple[str, ...]
    """What was answered, in the order of the requests."""

    @property
    def rate(self) -> float:
        """Completion tokens a second of all streams together, prompts included."""
        return self.tokens / self.seconds


def wave(server: Server, bodies: Sequence[Body], streams: int) -> Wave:
    """Each of so many streams asks what nobody has asked yet, until all is answered."""
    began = time.perf_counter()
    with ThreadPoolExecutor(streams) as pool:
        answers = list(pool.map(server.ask, bodies))
    seconds = time.perf_counter() - began
    return Wave(
        seconds,
        sum(server.tokens(answer) for answer in answers),
        tuple(f"{server.command.name}: {answer.error}" for answer in answers if answer.error is not None),
        tuple(_text(answer) for answer in answers),
    )


@dataclass(frozen=True)
class Together:
    """Equal requests side by side."""

    rate: float
    """Tokens a second of all of them, from the first text of any to the last frame."""
    evenness: float
    """The slowest over the fastest, by tokens a second after each one's first."""


def together(server: Server, bodies: Sequence[Body]) -> Together:
    """Ask all of them at once."""
    with ThreadPoolExecutor(len(bodies)) as pool:
        heard = list(pool.map(server.ask, bodies))
    for answer in heard:
        if answer.error is not None:
            raise RuntimeError(f"{server.command.name}: {answer.error}")
    began = min(answer.sent + answer.first for answer in heard)
    ended = max(answer.sent + answer.whole for answer in heard)
    rates = [server.tokens(answer) / (answer.whole - answer.first) for answer in heard]
    return Together(sum(map(server.tokens, heard)) / (ended - began), min(rates) / max(rates))


def in_turn(server: Server, bodies: Sequence[Body]) -> float:
    """Tokens a second of requests asked one after another, each from its first text to its last frame."""
    heard = [server.ask(body) for body in bodies]
    for answer in heard:
        if answer.error is not None:
            raise RuntimeError(f"{server.command.name}: {answer.error}")
    return sum(map(server.tokens, heard)) / sum(answer.whole - answer.first for answer in heard)


@dataclass(frozen=True)
class Beside:
    """What a long prompt did to the others, in seconds."""

    role: float
    """Until the first frame of the long request, and of a short one that came while its prompt was read."""
    prefill: float
    """Until the long request's first text."""
    usual: float
    """The median gap between frames of the others before it came."""
    longest: float
    """Their longest gap while the prompt was read."""


def beside(server: Server, running: Sequence[Body], long: Body, short: Body, settle: float) -> Beside:
    """Start `running`, and after `settle` seconds the long request, and a moment later the short one."""
    with ThreadPoolExecutor(len(running) + 2) as pool:
        others = [pool.submit(server.ask, body) for body in running]
        time.sleep(settle)
        asked = pool.submit(server.ask, long)
        time.sleep(settle / 4)
        late = pool.submit(server.ask, short)
        reading, quick = asked.result(), late.result()
        heard = [other.result() for other in others]
    for answer in (reading, quick, *heard):
        if answer.error is not None:
            raise RuntimeError(f"{server.command.name}: {answer.error}")
    start, end = reading.sent, reading.sent + reading.first
    during = [gap for answer in heard for at, gap in _gaps(answer) if start < at and at - gap < end]
    outside = [gap for answer in heard for at, gap in _gaps(answer) if at <= start]
    if not during or not outside:
        raise RuntimeError(f"{server.command.name}: the others had ended before the long prompt was read")
    return Beside(max(reading.role, quick.role), reading.first, statistics.median(outside), max(during))


def _gaps(answer: Heard) -> list[tuple[float, float]]:
    """The time at the end of each gap between frames that bring text, and the gap."""
    return list(zip(answer.spoken[1:], answer.gaps, strict=True))


def _text(answer: Heard) -> str:
    message = answer.message
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls", ())]
    return " ".join([message.get("reasoning_content", ""), message["content"], *calls])
