"""The only reader of a generation: ids to text to events. An answer is the fold of the same events."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Literal

from anyio.to_thread import run_sync

from server.backend import TextDecoder
from server.engine import Engine
from server.errors import PromptTooLong
from server.events import (
    Answer,
    CallEnd,
    Event,
    Finished,
    FinishReason,
    Piece,
    Reasoning,
    Report,
    Usage,
)
from server.prompt import rendered
from server.ticket import Progress, Ticket
from server.turn import Turn
from tools.events import finish_reason, merged
from tools.laguna import Reader, fold
from tools.stops import Stops


class Transcript:
    """One answer as it is written: ids in, pieces out, and a count of both. It knows no thread and no socket."""

    def __init__(self, decoder: TextDecoder, stops: Stops, reader: Reader) -> None:
        self._decoder = decoder
        self._stops = stops
        self._reader = reader
        self.stopped = False
        """One of the client's stop strings was written: nothing after it counts."""
        self.completion_tokens = 0
        self.reasoning_tokens = 0
        self._calls = 0
        self._unshown = 0

    def push(self, ids: Iterable[int]) -> list[Piece]:
        """The pieces these ids complete; ids after a stop string are not looked at."""
        pieces: list[Piece] = []
        for id_ in ids:
            if self.stopped:
                break
            self.completion_tokens += 1
            self._unshown += 1
            pieces += self._read(self._decoder.push((id_,)))
        return merged(pieces)

    def finish(self, reason: Literal["stop", "length"]) -> list[Piece]:
        """The pieces that were held back until the end was known."""
        pieces: list[Piece] = []
        if not self.stopped:
            pieces += self._read(self._decoder.finish())
        if not self.stopped:
            pieces += self._seen(self._reader.push(self._stops.finish()))
        pieces += self._seen(self._reader.finish(reason))
        return merged(pieces)

    def reason(self, end: Literal["stop", "length"]) -> FinishReason:
        """Why the answer is over, in the words of the events."""
        return finish_reason(end, self._calls)

    def _read(self, text: str) -> list[Piece]:
        text, self.stopped = self._stops.push(text)
        return self._seen(self._reader.push(text))

    def _seen(self, pieces: list[Piece]) -> list[Piece]:
        """Count. Tokens are reasoning when their text is shown as such, however long it was held back."""
        self._calls += sum(isinstance(piece, CallEnd) for piece in pieces)
        if pieces:
            self.reasoning_tokens += self._unshown if isinstance(pieces[0], Reasoning) else 0
            self._unshown = 0
        return pieces


class Generation:
    """A submitted turn. Whoever holds it must `close` it, heard or not: that frees its slot."""

    def __init__(self, engine: Engine, ticket: Ticket, transcript: Transcript) -> None:
        self._engine = engine
        self._ticket = ticket
        self._transcript = transcript

    async def events(self) -> AsyncGenerator[Event]:
        """Everything it says, `Finished` last.

        Raises:
            Refusal: it failed, by name.
        """
        transcript = self._transcript
        while True:
            progress = await self._ticket.next()
            for piece in transcript.push(progress.ids):
                yield piece
            end = "stop" if transcript.stopped else progress.finish
            if end is not None:
                self.close()
                for piece in transcript.finish(end):
                    yield piece
                yield _finished(transcript, end, progress)
                return

    async def answer(self) -> Answer:
        """The whole turn at once.

        Raises:
            Refusal: it failed, by name.
        """
        pieces: list[Piece] = []
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return Answer(fold(pieces), event)
                pieces.append(event)
        raise AssertionError("a generation ends with Finished or raises")

    def close(self) -> None:
        """Nobody listens any more, or it is over. Calling it twice is the same as once."""
        self._engine.release(self._ticket)


async def begin(engine: Engine, turn: Turn) -> Generation:
    """Render, measure and submit a turn; whatever can be refused is refused here, before the first byte goes out.

    Raises:
        UnrenderablePrompt, PromptTooLong: the messages cannot be answered.
        QueueFull, ModelLoading, EngineDead, ServerStopping: not now.
    """
    model = engine.welcome()
    prompt = await run_sync(partial(rendered, model, turn))
    room = model.context_length - len(prompt.ids)
    if room < 1:
        raise PromptTooLong(tokens=len(prompt.ids), limit=model.context_length)
    budget = room if turn.max_tokens is None else min(turn.max_tokens, room)
    transcript = Transcript(model.tokenizer.decoder(), Stops(turn.stops), Reader(turn.tools, prompt.thinking))
    return Generation(engine, engine.submit(prompt.ids, turn.wishes, budget, turn.speculation), transcript)


def _finished(transcript: Transcript, end: Literal["stop", "length"], progress: Progress) -> Finished:
    stats = progress.stats
    return Finished(
        reason=transcript.reason(end),
        usage=Usage(
            prompt=stats.prompt_tokens,
            completion=transcript.completion_tokens,
            reasoning=transcript.reasoning_tokens,
            cached=stats.cached_tokens,
        ),
        report=Report(
            rounds=stats.rounds,
            drafted=stats.drafted,
            accepted=stats.accepted,
            prefill_seconds=stats.prefill_seconds,
            decode_seconds=stats.decode_seconds,
            cached_tokens=stats.cached_tokens,
            speculation_off=stats.speculation_off,
        ),
    )
