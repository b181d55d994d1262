"""What a turn's answer is held to, compiled: its request's schemas as one grammar, each refused by its place."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from models.decode.constraint import Grammar, GrammarError
from server.errors import InvalidValue, UnsupportedParameter
from server.served import Model
from server.turn import Forced, Turn
from tools.grammar import Calls, SchemaError, grammar
from tools.schema import declared


def compiled(model: Model, turn: Turn, *, thinking: bool) -> Grammar | None:
    """The grammar of a turn, or None for a free one. Takes up to a second, so it has no place on the event loop.

    Args:
        model: whose vocabulary it is over.
        turn: what is asked for.
        thinking: the prompt ends inside a thinking block, which stays free.

    Raises:
        InvalidValue: a schema is none, or cannot be enforced although it is strict; `param` is its place.
        UnsupportedParameter: nothing can be enforced over this model's vocabulary.
    """
    forced = turn.forced
    if not forced.held:
        return None
    if model.grammars is None:
        told = "Answers cannot be held to a grammar here: the model's tokenizer cannot be read for it."
        raise UnsupportedParameter(told, param=forced.param)
    compile_text, calls = model.grammars.compile, _calls(turn)
    try:
        return compile_text(grammar(thinking=thinking, answer=forced.answer, calls=calls))
    except (SchemaError, GrammarError) as error:
        raise _at_fault(forced, calls, compile_text, error) from error


def _calls(turn: Turn) -> Calls | None:
    forced, named = turn.forced, turn.forced.callable
    tools = [tool for tool in turn.tools if named is None or not named.isdisjoint(declared([tool]))]
    return Calls(tools, forced.called, forced.strict, not turn.one_call) if tools else None


def _at_fault(
    forced: Forced, calls: Calls | None, compile_text: Callable[[str], Grammar], error: Exception
) -> InvalidValue:
    """The refusal, by the first schema that fails alone; by all of them where each would do."""
    for place, text in _singly(forced, calls):
        try:
            compile_text(text())
        except (SchemaError, GrammarError) as own:
            return InvalidValue(f"Invalid schema for '{place}': {own}.", param=place)
    return InvalidValue(f"The schemas of this request cannot be followed together: {error}.", param=forced.param)


def _singly(forced: Forced, calls: Calls | None) -> Iterator[tuple[str, Callable[[], str]]]:
    if forced.answer is not None:
        yield forced.param, partial(grammar, thinking=False, answer=forced.answer)
    for each in [replace(calls, tools=[tool]) for tool in calls.tools] if calls is not None else ():
        (name,) = declared(each.tools)
        yield forced.places.get(name, "tools"), partial(grammar, thinking=False, calls=each)
