"""A turn as the model reads it: rendered by the checkpoint's template, in ids, and where the answer starts."""

from dataclasses import dataclass

from models.messages import MessageError, TemplateError
from server.errors import UnrenderablePrompt
from server.marks import turn_starts, worth_keeping
from server.served import Model
from server.turn import Turn
from tools.laguna import thinking_open


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


def rendered(model: Model, turn: Turn) -> Prompt:
    """The prompt of a turn. Takes a while for a long one, so it has no place on the event loop.

    Raises:
        UnrenderablePrompt: the template cannot show these messages.
    """
    kwargs = {**model.template_kwargs, **turn.template_kwargs}
    try:
        text = model.tokenizer.render(turn.messages, turn.tools or None, **kwargs)
    except MessageError as error:
        raise UnrenderablePrompt(str(error), param=error.path) from error
    except TemplateError as error:
        raise UnrenderablePrompt(str(error), param="messages") from error
    # Flags and template versions disagree on what a turn opens with; the text itself does not.
    ids, starts = model.tokenizer.encode_at(text, turn_starts(text))
    marks = worth_keeping([start for start in starts if start < len(ids)])
    prediction = model.tokenizer.encode(turn.prediction) if turn.prediction else ()
    return Prompt(tuple(ids), thinking_open(text), marks, tuple(prediction))
