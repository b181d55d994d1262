"""Whole answers, for as long as somebody waits for them."""

import anyio
from fastapi import Request

from server.errors import ClientGone, Refusal
from server.events import Answer
from server.generation import Generation


async def while_heard(request: Request, generation: Generation) -> list[Answer]:
    """The answers, one a choice; their slots are free again afterwards.

    A handler that does not stream is not told when its client leaves, so this listens for it.

    Raises:
        ClientGone: the client hung up before the end.
        Refusal: the generation failed, by name.
    """
    request.state.generation = generation
    answers: list[Answer] | None = None
    failure: Refusal | None = None
    try:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                answers = await generation.answers()
            except Refusal as refusal:
                failure = refusal
            group.cancel_scope.cancel()
    finally:
        generation.close()
    if failure is not None:
        raise failure
    if answers is None:
        raise ClientGone
    return answers
