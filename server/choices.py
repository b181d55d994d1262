"""A turn as the decoding loop takes it: one request for each choice, the same but for its seed."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from models.decode.acceptance import Phase
from models.decode.constraint import Grammar
from models.decode.request import Request, Sampling, ThinkingBudget
from models.decode.sampling import seed_of_choice
from server.backend import Tokenizer
from server.errors import InvalidValue, UnsupportedParameter
from server.prompt import Prompt
from server.served import Model
from server.turn import Turn, Wishes

THINK_END, CALL = "</think>", "<tool_call>"
PHASES: Mapping[str, Phase] = MappingProxyType(
    {"<think>": "thinking", THINK_END: "answer", CALL: "arguments", "</tool_call>": "answer"}
)
"""What Laguna's markers begin. Drafts are accepted more often in one than in another."""


def requests(model: Model, turn: Turn, prompt: Prompt, grammar: Grammar | None, max_tokens: int) -> list[Request]:
    """The requests of a turn, the first with the very seed that was asked for (without one, a fresh one).

    Raises:
        InvalidValue: a bias names an id that is no token.
        UnsupportedParameter: thinking is to be bounded, and the vocabulary has no token that ends it.
    """
    size = model.tokenizer.vocab_size
    wrong = next((id_ for id_ in turn.wishes.logit_bias if id_ >= size), None)
    if wrong is not None:
        told = f"Invalid value for 'logit_bias': {wrong} is no token id of this model (0 to {size - 1})."
        raise InvalidValue(told, param="logit_bias")
    sampling = _sampling(turn.wishes, model.sampling)
    first = Request(
        prompt=prompt.ids,
        sampling=sampling,
        max_tokens=max_tokens,
        stop_ids=model.tokenizer.eos_ids,
        speculation=turn.speculation or model.speculation,
        min_tokens=min(turn.min_tokens, max_tokens),
        thinking=_thinking(model, turn, prompt),
        top_logprobs=turn.top_logprobs,
        prompt_logprobs=turn.top_logprobs if turn.plain is not None and turn.plain.scored else None,
        marks=prompt.marks,
        grammar=grammar,
        prediction=prompt.prediction,
        phase="thinking" if prompt.thinking else "answer",
        phases=phases(model.tokenizer),
    )
    seeds = [seed_of_choice(sampling.seed, choice) for choice in range(1, turn.choices)]
    others = [replace(first, sampling=replace(sampling, seed=seed), prompt_logprobs=None) for seed in seeds]
    # All but the prompt's last token is there for the others to resume from.
    last = {len(prompt.ids) - 1} - {0} if others else set()
    return [replace(first, marks=tuple(sorted({*first.marks, *last}))), *others]


def _thinking(model: Model, turn: Turn, prompt: Prompt) -> ThinkingBudget | None:
    """Only thinking that the prompt opens is bounded: what the model opens itself later, it also closes itself."""
    if turn.thinking_budget is None or not prompt.thinking:
        return None
    close = model.tokenizer.token_id(THINK_END)
    if close is None:
        told = f"A thinking budget ('thinking_token_budget') is not supported: this model has no token '{THINK_END}'."
        raise UnsupportedParameter(told, param="thinking_token_budget")
    opens = model.tokenizer.token_id(CALL) if turn.tools else None
    return ThinkingBudget(turn.thinking_budget, close, frozenset() if opens is None else frozenset({opens}))


def phases(tokenizer: Tokenizer) -> tuple[tuple[int, Phase], ...]:
    """What each marker begins, by its token's id; one that is no single token begins nothing."""
    ids = ((tokenizer.token_id(marker), phase) for marker, phase in PHASES.items())
    return tuple((id_, phase) for id_, phase in ids if id_ is not None)


def _sampling(wishes: Wishes, defaults: Sampling) -> Sampling:
    """The client's wishes over the checkpoint's."""
    return Sampling(
        temperature=defaults.temperature if wishes.temperature is None else wishes.temperature,
        top_k=defaults.top_k if wishes.top_k is None else wishes.top_k,
        top_p=defaults.top_p if wishes.top_p is None else wishes.top_p,
        min_p=defaults.min_p if wishes.min_p is None else wishes.min_p,
        seed=secrets.randbits(63) if wishes.seed is None else wishes.seed,
        logit_bias=tuple(wishes.logit_bias.items()),
        presence_penalty=wishes.presence_penalty,
        frequency_penalty=wishes.frequency_penalty,
        repetition_penalty=wishes.repetition_penalty,
    )
