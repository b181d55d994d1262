"""Vocabulary, ends of a turn and the chat template: what was read of them, and what is to be said about it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.config import read_json
from models.generation import Generation, read_generation
from models.pairing import MASK
from models.tokenizer import TURN_CLOSER, Tokenizer
from server.doctor.finding import Finding, Unread, known
from tools.laguna import Call, Reader, fold, thinking_open

Text = str | Unread
"""A rendered prompt, or why the template failed."""

MARKERS = ("<think>", "</think>", "<assistant>", "</assistant>", "<tool_call>", "</tool_call>")
"""What Laguna's vocabulary has as single tokens."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "A made-up tool.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["place"],
        },
    },
}
ASKED: dict[str, Any] = {"role": "user", "content": "How is it in Tromsø?"}
CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "A tool knows.",
    "tool_calls": [
        {"id": "1", "function": {"name": "look_up", "arguments": '{"place": "Tromsø", "days": 3}'}},
    ],
}
ANSWERED: dict[str, Any] = {"role": "tool", "tool_call_id": "1", "content": "cold"}


@dataclass(frozen=True)
class Renderings:
    """The template at work: prompts as the model would read them."""

    unasked: Text
    """One user turn, told only what the checkpoint wants told."""
    thinking: Text
    silent: Text
    with_tool: Text
    with_call: Text
    """A turn that called a tool, and its result."""


@dataclass(frozen=True)
class TextFacts:
    """What the tokenizer's files and the generation config say."""

    generation: Generation | Unread | None
    """None where config.json, which is part of it, is no JSON."""
    vocabulary: int
    """One more than the highest id with a token."""
    markers: Mapping[str, tuple[int, ...]]
    """The ids of each of `MARKERS`."""
    mask: int | None
    """The id of the token that stands for drafts to come."""
    ends: Mapping[int, str]
    """The text of every id that ends a turn, "" where it has no token."""
    opening: tuple[int, ...]
    """First two ids of the prompt that was rendered unasked."""
    renderings: Renderings
    parser: str | None
    """`tool_parser_type` of tokenizer_config.json."""


def gather(folder: Path) -> TextFacts:
    """Load the tokenizer and let the template render; no array is touched.

    Raises:
        ValueError: what `Tokenizer.load` refuses.
    """
    config = known(lambda: read_json(folder / "config.json"))
    generation = None if isinstance(config, Unread) else known(lambda: read_generation(folder))
    stated = generation if isinstance(generation, Generation) else Generation()
    tokenizer = Tokenizer.load(folder, eos_ids=stated.eos_ids)
    renderings = _renderings(tokenizer, stated.chat_template_kwargs)
    opening = known(lambda: tuple(tokenizer.encode(_text(renderings.unasked))[:2]))
    parser = read_json(folder / "tokenizer_config.json").get("tool_parser_type")
    return TextFacts(
        generation=generation,
        vocabulary=tokenizer.vocab_size,
        markers={marker: tuple(tokenizer.encode(marker)) for marker in MARKERS},
        mask=tokenizer.token_id(MASK),
        ends={id_: tokenizer.decoder().push([id_]) for id_ in sorted(tokenizer.eos_ids)},
        opening=() if isinstance(opening, Unread) else opening,
        renderings=renderings,
        parser=parser if isinstance(parser, str) else None,
    )


def _renderings(tokenizer: Tokenizer, kwargs: Mapping[str, Any]) -> Renderings:
    def render(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), **more: object) -> Text:
        return known(lambda: tokenizer.render(messages, tools, **{**kwargs, **more}))

    return Renderings(
        unasked=render([ASKED]),
        thinking=render([ASKED], enable_thinking=True),
        silent=render([ASKED], enable_thinking=False),
        with_tool=render([ASKED], [TOOL]),
        with_call=render([ASKED, CALLED, ANSWERED], [TOOL]),
    )


def _text(rendering: Text) -> str:
    return "" if isinstance(rendering, Unread) else rendering


def text_findings(facts: TextFacts | Unread, network: int | None) -> list[Finding]:
    """Everything about text; `network` is the width of the target's logits, None where that is unknown."""
    if isinstance(facts, Unread):
        return [Finding("tokenizer", "fail", facts.why, "fetch the tokenizer's and the template's files again")]
    return [
        *_generation_findings(facts.generation),
        *_vocabulary_findings(facts, network),
        _end_finding(facts),
        *template_findings(facts),
    ]


def _generation_findings(generation: Generation | Unread | None) -> list[Finding]:
    if generation is None:
        return []
    if isinstance(generation, Unread):
        return [
            Finding("generation", "fail", generation.why, "mend the file, or remove it if it is generation_config.json")
        ]
    chosen = f"temperature {generation.temperature:g}, top_p {generation.top_p:g}, top_k {generation.top_k or 'off'}"
    return [Finding("generation", "ok", f"{chosen} where a request does not say")]


def _vocabulary_findings(facts: TextFacts, network: int | None) -> list[Finding]:
    findings = []
    if network is not None and facts.vocabulary > network:
        said = f"the tokenizer has {facts.vocabulary} tokens, the network knows only {network}"
        findings.append(Finding("tokenizer", "fail", said, "the tokenizer is another model's: fetch this one's"))
    split = [marker for marker, ids in facts.markers.items() if len(ids) != 1]
    if split:
        said = f"{', '.join(split)}: several tokens each, where Laguna's vocabulary has one"
        advice = "compare tokenizer.json with the published one: the model was trained on single tokens"
        return [*findings, Finding("tokenizer", "warn", said, advice)]
    listed = ", ".join(f"{marker} {ids[0]}" for marker, ids in facts.markers.items())
    return [*findings, Finding("tokenizer", "ok", f"{facts.vocabulary} tokens; {listed}")]


def _end_finding(facts: TextFacts) -> Finding:
    """Which ids end a turn: what the configs say, the tokenizer's own and the template's closer."""
    listed = ", ".join(f"{id_} {text}".rstrip() for id_, text in facts.ends.items())
    lost = [str(id_) for id_, text in facts.ends.items() if not text]
    if lost:
        said = f"a turn ends at {listed}, but {', '.join(lost)} is not in the vocabulary"
        return Finding("ends", "warn", said, "compare eos_token_id in both configs with tokenizer.json")
    if TURN_CLOSER not in facts.ends.values():
        said = f"a turn ends at {listed}; {TURN_CLOSER}, which the template writes after one, is no single token"
        return Finding("ends", "warn", said, "answers may run on: compare tokenizer.json with the published one")
    ordinary = [f"{id_} ({text!r})" for id_, text in facts.ends.items() if not text.startswith(("<", "〈"))]
    if ordinary:
        said = f"a turn ends at {', '.join(ordinary)}, which is ordinary text in this vocabulary"
        return Finding("ends", "warn", said, "answers are cut there: compare eos_token_id with tokenizer.json")
    stated = facts.generation.eos_ids if isinstance(facts.generation, Generation) else frozenset[int]()
    added = [text for id_, text in facts.ends.items() if id_ not in stated]
    more = f"; the configs leave out {', '.join(added)}, which counts all the same" if added else ""
    return Finding("ends", "ok", f"a turn ends at {listed}{more}")


def template_findings(facts: TextFacts) -> list[Finding]:
    """Whether the template can show what a conversation holds, and whether its dialect is the one that is read."""
    shown = facts.renderings
    return [
        _opening_finding(facts),
        _thinking_finding(shown),
        _tool_finding(shown.with_tool),
        _call_finding(shown.with_call, facts.parser),
    ]


def _opening_finding(facts: TextFacts) -> Finding:
    unasked = facts.renderings.unasked
    if isinstance(unasked, Unread):
        return Finding("template", "fail", unasked.why, "use the chat_template.jinja published with the checkpoint")
    if "<assistant>" not in unasked:
        said = "the prompt does not end with <assistant>: this is not a Laguna template"
        return Finding("template", "fail", said, "use the chat_template.jinja published with the checkpoint")
    if len(set(facts.opening)) == 1:
        said = f"the prompt begins with token {facts.opening[0]} twice"
        return Finding("template", "warn", said, "the template should write its opening token once")
    return Finding("template", "ok", f"compiles and renders a turn, to {_tail(unasked)}")


def _thinking_finding(shown: Renderings) -> Finding:
    match shown:
        case Renderings(unasked=str(unasked), thinking=str(thinking), silent=str(silent)):
            default = "on" if thinking_open(unasked) else "off"
            if thinking_open(thinking) and not thinking_open(silent):
                return Finding("thinking", "ok", f"can be chosen; {default} where a request does not say")
            said = f"enable_thinking does not change how the prompt ends: thinking is always {default}"
            return Finding("thinking", "warn", said, "requests that ask for the other one get this one")
    failed = next(text.why for text in (shown.thinking, shown.silent, shown.unasked) if isinstance(text, Unread))
    return Finding("thinking", "fail", failed, "use the chat_template.jinja published with the checkpoint")


def _tool_finding(with_tool: Text) -> Finding:
    if isinstance(with_tool, Unread):
        return Finding("tools", "fail", with_tool.why, "the template cannot show tools: use the published one")
    if TOOL["function"]["name"] not in with_tool:
        said = "the template leaves tools out: the model would never know of them"
        return Finding("tools", "fail", said, "use the chat_template.jinja published with the checkpoint")
    return Finding("tools", "ok", "declared tools are shown to the model")


def _call_finding(with_call: Text, parser: str | None) -> Finding:
    """What the template writes must be what the reader reads."""
    if isinstance(with_call, Unread):
        return Finding("dialect", "fail", with_call.why, "past calls cannot be shown: use the published template")
    wanted = [("look_up", {"place": "Tromsø", "days": 3})]
    if [(call.name, json.loads(call.arguments)) for call in reread(with_call)] != wanted:
        said = "a past call is not written in Laguna's dialect: calls of this model would not be read"
        return Finding("dialect", "fail", said, "use the chat_template.jinja published with the checkpoint")
    named = f"; tool_parser_type {parser!r} changes nothing" if parser else ""
    return Finding("dialect", "ok", f"the Laguna reader reads back the call that the template wrote{named}")


def reread(with_call: str) -> tuple[Call, ...]:
    """The calls of the first assistant's turn in a rendered conversation."""
    turn = with_call.partition("<assistant>")[2].partition(TURN_CLOSER)[0]
    reader = Reader([TOOL], thinking=False)
    return fold([*reader.push(turn.rpartition("</think>")[2]), *reader.finish("stop")]).calls


def _tail(prompt: str) -> str:
    return repr(prompt[prompt.rfind("<assistant>") :])
