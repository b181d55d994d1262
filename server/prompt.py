"""A turn as the model reads it: rendered by the checkpoint's template, in ids, and where the answer starts."""

from dataclasses import dataclass

from models.messages import MessageError, TemplateError
from models.spelling import Rendered
from server.errors import InvalidValue, UnrenderablePrompt
from server.marks import turn_starts, worth_keeping
from server.replay import CLOSER, OPENER, Spoken, spliced, spoken_turns
from server.served import Model
from server.turn import Plain, Turn
from tools.laguna import thinking_open


@dataclass(frozen=True)
class Opened:
    """The beginning of a turn that is to be written."""

    at: int
    """How many ids come before it."""
    text: str


@dataclass(frozen=True)
class Prompt:
    """What the model is given."""

    ids: tuple[int, ...]
    thinking: bool
    """The rendered text ends inside a thinking block, so the answer begins with reasoning."""
    marks: tuple[int, ...] = ()
    """Where later prompts may part from this one, in tokens."""
    prediction: tuple[int, ...] = ()
    """What the answer is expected to say."""
    unshown: int = 0
    """So many ids at its beginning stand for nothing in the text that was asked with."""
    opened: Opened | None = None
    """The assistant's turn that it leaves open; None where a template opens none."""


def rendered(model: Model, turn: Turn) -> Prompt:
    """The prompt of a turn. Takes a while for a long one, so it has no place on the event loop.

    Raises:
        UnrenderablePrompt: the template cannot show these messages.
        InvalidValue: an id of a plain prompt is no token's.
    """
    if turn.plain is not None:
        return plain_prompt(model, turn.plain)
    written = _written(model, turn)
    # What a message spells opens and closes nothing, so turns are looked for in the marked text.
    text = written.marked
    starts, turns = turn_starts(text), spoken_turns(text)
    places = [*starts, *(edge for span in turns for edge in span)]
    ids, found = model.tokenizer.encode_at(written, places)
    edges = iter(found[len(starts) :])
    spoken = [Spoken(next(edges), next(edges), written.between(start, stop)) for start, stop in turns]
    whole, moved = spliced(ids, model.replay.splices(ids, spoken, turn.tools))
    marks = [place for place in map(moved, found[: len(starts)]) if place is not None and place < len(whole)]
    # Flags and template versions disagree on what a turn opens with; the text itself does not.
    return Prompt(
        ids=whole,
        thinking=thinking_open(text),
        marks=worth_keeping(marks),
        prediction=tuple(model.tokenizer.encode(turn.prediction)) if turn.prediction else (),
        opened=_opened(text, starts, marks),
    )


def plain_prompt(model: Model, plain: Plain) -> Prompt:
    """A prompt without a conversation.

    Raises:
        InvalidValue: one of them is no token's.
    """
    if isinstance(plain.prompt, str):
        ids, opening = model.tokenizer.encode(plain.prompt), model.tokenizer.opening_ids if plain.opened else ()
        missing = opening if tuple(ids[: len(opening)]) != opening else ()
        return Prompt((*missing, *ids), thinking=False, unshown=len(missing))
    return Prompt(checked_ids(model, plain.prompt, "prompt"), thinking=False)


def checked_ids(model: Model, ids: tuple[int, ...], param: str) -> tuple[int, ...]:
    """The same ids, if each is a token's.

    Raises:
        InvalidValue: one is not; `param` says where they came from.
    """
    size = model.tokenizer.vocab_size
    wrong = next((id_ for id_ in ids if not 0 <= id_ < size), None)
    if wrong is not None:
        raise InvalidValue(
            f"Invalid value for '{param}': {wrong} is no token id of this model (0 to {size - 1}).", param=param
        )
    return ids


def _written(model: Model, turn: Turn) -> Rendered:
    kwargs = {**model.template_kwargs, **turn.template_kwargs}
    try:
        return model.tokenizer.render_marked(turn.messages, turn.tools or None, **kwargs)
    except MessageError as error:
        raise UnrenderablePrompt(str(error), param=error.path) from error
    except TemplateError as error:
        raise UnrenderablePrompt(str(error), param=turn.place) from error


def _opened(text: str, starts: list[int], marks: list[int]) -> Opened | None:
    """The turn that the prompt leaves to the model, where it is an assistant's."""
    tail = text[starts[-1] :] if starts and marks else ""
    return Opened(marks[-1], tail) if tail.startswith(OPENER) and CLOSER not in tail else None
