"""The only reader of a generation: ids to text to events. An answer is the fold of the same events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from anyio.to_thread import run_sync

from models.decode.session import Request, Stats
from server.attribution import Attribution
from server.choices import requests
from server.course import Course, Figures
from server.echo import Echo
from server.engine import Engine
from server.errors import BudgetTooLong, Cancelled, DeadlineExceeded, PromptTooLong, Refusal
from server.events import Answer, Content, Event, Finished, Piece, Report, Usage
from server.forcing import compiled
from server.mail import Mail, Progress
from server.prompt import Prompt, rendered
from server.recall import Recall
from server.served import Model
from server.ticket import Ticket
from server.transcript import Transcript
from server.turn import Turn
from tools.events import merged
from tools.laguna import Reader, fold
from tools.stops import Stops
from tools.verbatim import Verbatim

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deadline:
    """When a generation must be over, by the loop's clock, and how long that was from its beginning."""

    at: float
    seconds: float


class Generation:
    """Submitted turns, each of one choice or more, numbered in order through all of them.

    Whoever holds it must `close` it, heard or not: that frees its slots.
    """

    def __init__(
        self,
        engine: Engine,
        mail: Mail,
        tickets: Sequence[Ticket],
        transcripts: Sequence[Transcript],
        recalls: Sequence[Recall],
        echoes: Mapping[int, Echo],
        deadline: Deadline | None = None,
    ) -> None:
        """Each ticket's ids are written by the transcript, and kept by the recall, at the same place.

        The answers from a place in `echoes` on begin with the prompt.
        """
        self._deadline = deadline
        self._course = Course(_shared_once(tickets))
        self._engine = engine
        self._recalls = recalls
        self._echoes = echoes
        self._mail = mail
        self._tickets = tickets
        self._transcripts = transcripts

    @property
    def choices(self) -> int:
        """How many answers it gives."""
        return len(self._tickets)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the (first) prompt that its choices share."""
        return len(self._tickets[0].request.prompt)

    async def told(self) -> AsyncGenerator[tuple[int, Event]]:
        """Everything its choices say, each event after the choice's index; a choice's last is `Finished`.

        Raises:
            Refusal: one of them failed, by name.
        """
        open_choices = set(range(self.choices))
        while open_choices:
            index, progress = await self._next()
            # What was under way when a stop string ended the choice.
            if index not in open_choices:
                continue
            for choice, piece in self._echoed(index, progress):
                yield choice, piece
            transcript = self._transcripts[index]
            pieces = transcript.push(progress.ids, progress.scores, progress.writers)
            self._course.came(index, transcript.completion_tokens, progress.stats)
            for piece in pieces:
                yield index, piece
            end = "stop" if transcript.stopped else progress.finish
            if end is not None:
                open_choices.remove(index)
                self._engine.release(self._tickets[index])
                # Behind a stop string lies what the client never saw; behind a call that ends the turn, nothing does.
                if transcript.stop is None:
                    self._recalls[index].answered(transcript.ids)
                for piece in transcript.finish(end):
                    yield index, piece
                self._course.ended()
                yield index, _finished(transcript, end, progress.stats, self._recalls[index].parted(progress.stats))

    def _echoed(self, index: int, progress: Progress) -> Iterator[tuple[int, Piece]]:
        """A prompt that was scored, for each of its answers; it is told with the first one's first ids."""
        if progress.prompt is not None:
            echo = self._echoes[index]
            content = echo.content(progress.prompt)
            yield from ((index + choice, content) for choice in range(echo.choices))

    async def _next(self) -> tuple[int, Progress]:
        try:
            if self._deadline is None:
                return await self._mail.next()
            async with asyncio.timeout_at(self._deadline.at):
                return await self._mail.next()
        except TimeoutError as error:
            assert self._deadline is not None
            refusal = DeadlineExceeded(seconds=self._deadline.seconds)
            self._course.failed(refusal)
            raise refusal from error
        except Refusal as refusal:
            self._course.failed(refusal)
            raise

    @property
    def figures(self) -> Figures:
        """How far it has come."""
        return self._course.figures

    async def events(self) -> AsyncGenerator[Event]:
        """Everything its one choice says, `Finished` last.

        Raises:
            Refusal: it failed, by name.
        """
        async with aclosing(self.told()) as told:
            async for _, event in told:
                yield event

    async def answers(self) -> list[Answer]:
        """The whole turn at once, choice by choice.

        Raises:
            Refusal: it failed, by name.
        """
        pieces: list[list[Piece]] = [[] for _ in self._tickets]
        ends: dict[int, Finished] = {}
        async with aclosing(self.told()) as told:
            async for index, event in told:
                if isinstance(event, Finished):
                    ends[index] = event
                else:
                    pieces[index].append(event)
        return [_answer(pieces[index], ends[index]) for index in range(self.choices)]

    def cancel(self) -> None:
        """End it for whoever listens, with the refusal `Cancelled`."""
        self.close()
        self._mail.put(0, Cancelled())

    def close(self) -> None:
        """Nobody listens any more, or it is over. Calling it twice is the same as once."""
        # The first last: those that wait for it are not to be queued when it goes.
        for ticket in reversed(self._tickets):
            self._engine.release(ticket)


async def begin(engine: Engine, turn: Turn, *others: Turn) -> Generation:
    """Render, measure and submit a turn or several; whatever can be refused is refused before the first byte goes out.

    Raises:
        UnrenderablePrompt, PromptTooLong, BudgetTooLong: a turn cannot be answered.
        InvalidValue, UnsupportedParameter: nor with what it asks for.
        QueueFull, ModelLoading, EngineHung, EngineDead, ServerStopping: not now.
    """
    turns = (turn, *others)
    began = asyncio.get_running_loop().time()
    model = engine.welcome(sum(each.choices for each in turns))
    prompts = [await run_sync(partial(rendered, model, each)) for each in turns]
    if model.log_prompts:
        _log(model, prompts)
    asked = [await _requests(model, *each) for each in zip(turns, prompts, strict=True)]
    mail, tickets = engine.submit(*asked)
    own = [each for each in zip(turns, prompts, strict=True) for _ in range(each[0].choices)]
    transcripts = [_transcript(model, *each) for each in own]
    echoes = {
        sum(each.choices for each in turns[:place]): Echo(model.tokenizer, prompt.ids, prompt.unshown, each.choices)
        for place, (each, prompt) in enumerate(zip(turns, prompts, strict=True))
    }
    limit = model.request_timeout
    deadline = None if limit is None else Deadline(began + limit, limit)
    return Generation(engine, mail, tickets, transcripts, [Recall(model, *each) for each in own], echoes, deadline)


def _shared_once(tickets: Sequence[Ticket]) -> list[int]:
    """Tokens of each ticket's prompt; choices of one turn have the same, which counts for the first."""
    prompts = [ticket.request.prompt for ticket in tickets]
    return [0 if index and prompt is prompts[index - 1] else len(prompt) for index, prompt in enumerate(prompts)]


def _log(model: Model, prompts: Sequence[Prompt]) -> None:
    for prompt in prompts:
        decoder = model.tokenizer.decoder()
        log.info("a prompt of %d tokens: %r", len(prompt.ids), decoder.push(prompt.ids) + decoder.finish())


async def _requests(model: Model, turn: Turn, prompt: Prompt) -> list[Request]:
    budget = _budget(turn, len(prompt.ids), model.context_length)
    grammar = await run_sync(partial(compiled, model, turn, thinking=prompt.thinking)) if turn.forced.held else None
    return requests(model, turn, prompt, grammar, budget)


def _budget(turn: Turn, tokens: int, limit: int) -> int:
    room = limit - tokens
    if turn.whole_budget and turn.max_tokens is not None and 0 <= room < turn.max_tokens:
        raise BudgetTooLong(tokens=tokens, budget=turn.max_tokens, limit=limit)
    if room < 1:
        raise PromptTooLong(tokens=tokens, limit=limit, param=turn.place)
    return room if turn.max_tokens is None else min(turn.max_tokens, room)


async def measured(engine: Engine, turn: Turn) -> int:
    """How many tokens the prompt of a turn has, whether or not they fit.

    Raises:
        UnrenderablePrompt: the turn cannot be shown.
        ModelLoading, EngineHung, EngineDead, ServerStopping: not now.
    """
    return len((await run_sync(partial(rendered, engine.model, turn))).ids)


def _transcript(model: Model, turn: Turn, prompt: Prompt) -> Transcript:
    return Transcript(
        model.tokenizer.decoder(),
        Stops(turn.stops),
        Reader(turn.tools, prompt.thinking) if turn.plain is None else Verbatim(),
        one_call=turn.one_call,
        attribution=Attribution(model.tokenizer.bytes_of) if turn.attributed else None,
    )


def _answer(pieces: Sequence[Piece], finished: Finished) -> Answer:
    tokens = [token for piece in pieces if isinstance(piece, Content) for token in piece.tokens]
    return Answer(fold(pieces), finished, tuple(tokens), tuple(merged(pieces)))


def _finished(transcript: Transcript, end: Literal["stop", "length"], stats: Stats, parted: str | None) -> Finished:
    return Finished(
        reason=transcript.reason(end),
        usage=Usage(
            prompt=stats.prompt_tokens,
            completion=transcript.completion_tokens,
            reasoning=transcript.reasoning_tokens,
            cached=stats.cached_tokens,
            predicted=stats.predicted[0],
            unpredicted=stats.predicted[1],
        ),
        report=Report(
            rounds=stats.rounds,
            drafted=stats.drafted,
            accepted=stats.accepted,
            prefill_seconds=stats.prefill_seconds,
            decode_seconds=stats.decode_seconds,
            cached_tokens=stats.cached_tokens,
            sources={source: {"drafted": drafted, "accepted": own} for source, drafted, own in stats.by_source},
            drafted_by_depth=list(stats.drafted_by_depth),
            accepted_by_depth=list(stats.accepted_by_depth),
            speculation_off=stats.speculation_off,
            cache_parted=parted,
        ),
        stop=transcript.stop,
    )
