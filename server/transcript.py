"""One answer as it is written: ids in, pieces out, and a count of both. It knows no thread and no socket."""

from collections.abc import Sequence
from typing import Literal

from models.decode.acceptance import TARGET, Writer
from models.decode.logprobs import Scored
from server.attribution import Attribution
from server.backend import TextDecoder
from server.events import CallEnd, Content, FinishReason, Piece, Reasoning
from tools.events import finish_reason, merged
from tools.laguna import Reader
from tools.stops import Stops
from tools.verbatim import Verbatim


class Transcript:
    """Text of tokens, cut by the client's stop strings, read as Laguna's dialect."""

    def __init__(
        self,
        decoder: TextDecoder,
        stops: Stops,
        reader: Reader | Verbatim,
        *,
        one_call: bool = False,
        attribution: Attribution | None = None,
    ) -> None:
        """`one_call` ends the turn with its first complete call; `attribution` gives the pieces their tokens."""
        self._decoder = decoder
        self._stops = stops
        self._reader = reader
        self._one_call = one_call
        self._attribution = attribution
        self.stopped = False
        """One of the client's stop strings was written, or the one call: nothing after it counts."""
        self.ids: list[int] = []
        """What was looked at."""
        self.reasoning_tokens = 0
        self._calls = 0
        self._unshown = 0
        self._released = 0

    def push(self, ids: Sequence[int], scores: Sequence[Scored] = (), writers: Sequence[Writer] = ()) -> list[Piece]:
        """The pieces these ids complete; ids after a stop string are not looked at.

        `scores` and `writers` are those of the ids, or nothing, where the pieces are to have their tokens.
        """
        pieces: list[Piece] = []
        for place, id_ in enumerate(ids):
            if self.stopped:
                break
            self.ids.append(id_)
            self._unshown += 1
            text = self._decoder.push((id_,))
            if self._attribution is not None:
                scored, writer = scores[place] if scores else None, writers[place] if writers else TARGET
                self._attribution.wrote(id_, text, scored, writer)
            pieces += self._read(text)
        return merged(pieces)

    @property
    def completion_tokens(self) -> int:
        """How many ids were looked at."""
        return len(self.ids)

    def finish(self, reason: Literal["stop", "length"]) -> list[Piece]:
        """The pieces that were held back until the end was known."""
        if self._one_call and self._calls:
            return []
        pieces: list[Piece] = []
        if not self.stopped:
            rest = self._decoder.finish()
            if self._attribution is not None:
                self._attribution.ended(rest)
            pieces += self._read(rest)
        if not self.stopped:
            pieces += self._released_to_reader(self._stops.finish())
        pieces += self._seen(self._reader.finish(reason))
        return merged(pieces)

    @property
    def stop(self) -> str | None:
        """The stop string that was written, if one was."""
        return self._stops.met

    def reason(self, end: Literal["stop", "length"]) -> FinishReason:
        """Why the answer is over, in the words of the events."""
        return finish_reason(end, self._calls)

    def _read(self, text: str) -> list[Piece]:
        text, self.stopped = self._stops.push(text)
        return self._released_to_reader(text)

    def _released_to_reader(self, text: str) -> list[Piece]:
        self._released += len(text)
        return self._seen(self._reader.push(text))

    def _seen(self, pieces: list[Piece]) -> list[Piece]:
        """Count. Tokens are reasoning when their text is shown as such, however long it was held back."""
        if not pieces:
            return pieces
        self.reasoning_tokens += self._unshown if isinstance(pieces[0], Reasoning) else 0
        self._unshown = 0
        ends = [place for place, piece in enumerate(pieces, 1) if isinstance(piece, CallEnd)]
        if ends and self._one_call:
            pieces, ends, self.stopped = pieces[: ends[0]], ends[:1], True
        self._calls += len(ends)
        return pieces if self._attribution is None else [self._attributed(piece, self._attribution) for piece in pieces]

    def _attributed(self, piece: Piece, attribution: Attribution) -> Piece:
        read = self._released - self._reader.held
        match piece:
            case Content(text):
                return Content(text, attribution.shown(text, read))
            case Reasoning(text):
                piece = Reasoning(text, attribution.shown(text, read))
                attribution.passed(read)
            case CallEnd(index):
                return CallEnd(index, attribution.passed(read))
        return piece
