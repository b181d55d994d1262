"""What one turn finds of earlier ones, and what it leaves for the next."""

from collections.abc import Sequence

from models.decode.session import Stats
from server.marks import SHOWN, parting
from server.prompt import Prompt
from server.replay import Said, meaning
from server.served import Model
from server.turn import Turn


class Recall:
    """One turn's prompt, among those that the model was given."""

    def __init__(self, model: Model, turn: Turn, prompt: Prompt) -> None:
        self._model = model
        self._turn = turn
        self._prompt = prompt

    def parted(self, stats: Stats) -> str | None:
        """Where the prompt left what was kept of earlier ones, in words."""
        if stats.parted_at is None:
            return None
        ids, at, decoder = self._prompt.ids, stats.parted_at, self._model.tokenizer.decoder()
        return parting(decoder.push(ids[:at]), decoder.push(ids[at : at + SHOWN]), at, len(ids))

    def answered(self, ids: Sequence[int]) -> None:
        """Keep a whole answer, so that a conversation that brings it back is given the same ids again."""
        opened, decoder = self._prompt.opened, self._model.tokenizer.decoder()
        if opened is None:
            return
        before, tail = self._prompt.ids[: opened.at], self._prompt.ids[opened.at :]
        text = decoder.push(ids) + decoder.finish()
        thinking = self._prompt.thinking
        said = Said(tail, tuple(ids), opened.text, thinking, meaning(text, self._turn.tools, thinking=thinking))
        self._model.replay.remember(before, said)
