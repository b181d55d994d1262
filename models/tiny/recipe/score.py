"""The embedded pair's figures: held-out chats answered by the server's own loop, greedy, block by block."""

from dataclasses import dataclass, field, replace
from typing import Any

from models.checkpoint import embedded_path, load_speculator, load_target
from models.decode.session import Request, Sampling, Speculation
from models.runtime import Runtime
from models.tiny.recipe.chats import Chat, held_out
from models.tiny.recipe.rendering import render

AT_ONCE = 8
ROOM = 256


@dataclass
class Figures:
    """Counts over held-out turns."""

    exact: dict[str, int] = field(default_factory=lambda: {"calls": 0, "others": 0})
    turns: dict[str, int] = field(default_factory=lambda: {"calls": 0, "others": 0})
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """What was expected and what was written, where they differ."""

    def summary(self) -> dict[str, Any]:
        """The figures that the README shows."""
        return {
            "tool-call turns exact": f"{self.exact['calls']}/{self.turns['calls']}",
            "other turns exact": f"{self.exact['others']}/{self.turns['others']}",
            "rounds": self.rounds,
            "mean drafted a round": round(self.drafted / max(self.rounds, 1), 3),
            "mean accepted a round": round(self.accepted / max(self.rounds, 1), 3),
        }


def with_block(runtime: Runtime, rows: int) -> Runtime:
    """The embedded pair, drafting blocks of `rows` rows: a causal block has the same drafts at any width."""
    target = load_target(embedded_path())
    speculator = load_speculator(embedded_path() / "speculator", target)
    speculator.config = replace(speculator.config, block_size=rows)
    return replace(runtime, target=target, speculator=speculator)


def turns_of(chat: Chat) -> list[tuple[str, str, str]]:
    """For each taught assistant turn: its kind, the prompt that leads to it and the text that should follow."""
    whole = render(chat)
    made = []
    for turn in chat.trained_turns:
        prompt = render(chat, turn)
        rest = whole[len(prompt) :]
        kind = "calls" if chat.messages[turn].get("tool_calls") else "others"
        made.append((kind, prompt, rest[: rest.index("</assistant>")]))
    return made


def score(runtime: Runtime, chats: int, first: int = 0, speculation: Speculation = "always") -> Figures:
    """Answer every taught turn of held-out chats `first` to `first + chats`, and compare whole turns."""
    figures, waiting = Figures(), [turn for i in range(chats) for turn in turns_of(held_out(first + i))]
    for start in range(0, len(waiting), AT_ONCE):
        _answer(runtime, waiting[start : start + AT_ONCE], speculation, figures)
    return figures


def _answer(runtime: Runtime, turns: list[tuple[str, str, str]], speculation: Speculation, figures: Figures) -> None:
    batch, written = runtime.batch(), {}
    for kind, prompt, expected in turns:
        ids = tuple(runtime.tokenizer.encode(prompt))
        session = batch.add(Request(ids, Sampling(), ROOM, runtime.tokenizer.eos_ids, speculation))
        written[session] = (kind, expected, [])
    while batch.sessions:
        for update in batch.step():
            if update.error is not None:
                raise update.error
            written[update.session][2].extend(update.ids)
    for session, (kind, expected, ids) in written.items():
        decoder = runtime.tokenizer.decoder()
        text = decoder.push(ids) + decoder.finish()
        figures.turns[kind] += 1
        figures.exact[kind] += text == expected
        if text != expected:
            figures.wrong.append((expected, text))
        figures.rounds += session.stats.rounds
        figures.drafted += session.stats.drafted
        figures.accepted += session.stats.accepted
