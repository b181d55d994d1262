"""`python -m tests.bench.wire`: µs of Python that a text chunk costs in each dialect, and that a first one does."""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from fastapi import FastAPI
from starlette.types import Message, Scope

from server.api.chat import encode as chat
from server.api.chat import schema as chat_schema
from server.api.completions import encode as completions
from server.api.completions import schema as completions_schema
from server.api.messages import encode as messages
from server.api.responses import encode as responses
from server.api.responses import schema as responses_schema
from server.api.responses.store import Store
from server.app import create_app
from server.engine import Engine
from server.events import Event, Finished, Report, Usage
from server.served import Model
from server.settings import Settings
from server.transcript import Transcript
from tests.server.script import ScriptPair, ScriptTokenizer, ids_of, says
from tools.laguna import Reader
from tools.stops import Stops

BLOCK = ids_of("words ")
"""What each chunk says, a token a byte."""
GOAL = 25.0
"""Microseconds a text chunk, from text to frame."""
HI = [{"role": "user", "content": "hi"}]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "completions": ("/v1/completions", {"prompt": "hi", "max_tokens": 100}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 100}),
}


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time, medians over the repeats."""

    read: float
    """A block of ids to its text and its event; the same in every dialect."""
    write: float
    """An event to its frame."""
    first: float
    """A request's bytes to the first bytes of its stream, the engine's thread included."""

    @property
    def chunk(self) -> float:
        """All of a text chunk but sending it."""
        return self.read + self.write


def pieces(chunks: int) -> list[Event]:
    """What so many blocks say, and the end."""
    told = Transcript(ScriptTokenizer().decoder(), Stops(()), Reader([], thinking=False))
    found: list[Event] = [piece for _ in range(chunks) for piece in told.push(BLOCK)]
    usage = Usage(3, told.completion_tokens, 0, 0)
    report = Report(1, 0, 0, 0.0, 0.0, 0, {}, speculation_off=None, cache_parted=None)
    return [*found, *told.finish("stop"), Finished("stop", usage, report)]


async def _each(events: list[Event]) -> AsyncGenerator[Event]:
    for event in events:
        yield event


async def _numbered(events: list[Event]) -> AsyncGenerator[tuple[int, Event]]:
    for event in events:
        yield 0, event


def writers(model: Model) -> dict[str, Callable[[list[Event]], AsyncGenerator[bytes]]]:
    """For each dialect, what turns events into frames, as its route sets it up."""
    bodies = {name: json.dumps(body).encode() for name, (_, body) in BODIES.items()}
    asked = chat_schema.understood(bodies["chat"]).asked
    plain = completions_schema.understood(bodies["completions"]).asked
    told = responses_schema.understood(bodies["responses"], Store(0, 0))
    return {
        "chat": lambda events: chat.frames(
            _numbered(events), chat.Envelope.fresh(model.id, "reasoning_content", asked)
        ),
        "completions": lambda events: completions.frames(
            _numbered(events), completions.Envelope.fresh(model.id, plain, [""])
        ),
        "responses": lambda events: responses.frames(
            _each(events), responses.Telling(responses.Envelope.fresh(model, told))
        ),
        "messages": lambda events: messages.frames(
            _each(events), messages.Envelope.fresh(model.id, 3, omits_thinking=False)
        ),
    }


async def _drain(frames: AsyncGenerator[bytes]) -> None:
    async for _ in frames:
        pass


async def first(app: FastAPI, path: str, body: bytes) -> float:
    """Seconds of processor time, all threads together, until the first bytes of the body go out."""
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "state": {},
    }
    gone, sent = asyncio.Event(), iter([{"type": "http.request", "body": body, "more_body": False}])
    began, until = time.process_time(), list[float]()

    async def receive() -> Message:
        message = next(sent, None)
        if message is None:
            await gone.wait()
        return message or {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body" and message["body"] and not until:
            until.append(time.process_time() - began)

    await app(scope, receive, send)
    return until[0]


async def measured(chunks: int, repeats: int) -> dict[str, Cost]:
    """The costs of every dialect, after one run that warms up."""
    engine = Engine(partial(ScriptPair, says("words ", block=len(BLOCK))), Settings())
    app = create_app(engine, Settings())
    await engine.start()
    try:
        while engine.health.state == "loading":
            await asyncio.sleep(0.01)
        read = statistics.median([_spent(partial(pieces, chunks)) / chunks for _ in range(repeats)])
        costs, events = {}, pieces(chunks)
        for name, frames in writers(engine.model).items():
            path, body = BODIES[name]
            streamed = json.dumps(body | {"stream": True}).encode()
            wrote = [await _awaited(partial(frames, events)) / chunks for _ in range(repeats + 1)]
            firsts = [await first(app, path, streamed) for _ in range(20 * repeats)]
            costs[name] = Cost(
                *(value * 1e6 for value in (read, statistics.median(wrote[1:]), statistics.median(firsts)))
            )
        return costs
    finally:
        await engine.stop()


def _spent(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


async def _awaited(frames: Callable[[], AsyncGenerator[bytes]]) -> float:
    began = time.process_time()
    await _drain(frames())
    return time.process_time() - began


@click.command()
@click.option("--chunks", default=2000, show_default=True, help="Text chunks of one stream.")
@click.option("--repeats", default=9, show_default=True)
@click.option("--check", is_flag=True, help=f"Fail where a chunk costs more than {GOAL:g} µs.")
def main(chunks: int, repeats: int, check: bool) -> None:
    """Print a table of µs of processor time, medians over the repeats."""
    costs = asyncio.run(measured(chunks, repeats))
    click.echo(f"µs of processor time; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    click.echo(f"{'dialect':12} {'ids to event':>13} {'event to frame':>15} {'a text chunk':>13} {'first chunk':>12}")
    for name, cost in costs.items():
        click.echo(f"{name:12} {cost.read:13.1f} {cost.write:15.1f} {cost.chunk:13.1f} {cost.first:12.0f}")
    over = [name for name, cost in costs.items() if cost.chunk > GOAL]
    if check and over:
        raise click.ClickException(f"a text chunk costs more than {GOAL:g} µs in {', '.join(over)}")


if __name__ == "__main__":
    main()
