"""Which tokens wrote the content: text goes in as the decoder gives it, and comes out as the reader shows it."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from models.decode.acceptance import TARGET, Writer
from models.decode.logprobs import Scored
from tools.events import Token

Span = tuple[int, int]


@dataclass(frozen=True)
class _Written:
    """A token whose text was not shown yet, and where in the answer it begins."""

    start: int
    token: Token

    @property
    def stop(self) -> int:
        return self.start + len(self.token.text)


class Attribution:
    """The tokens whose text is still to be shown, or never will be.

    What is shown are parts of what was written, in order. Text whose own token is gone (white space that was held back
    beyond a call) goes to the token shown next, so that the tokens of a content always join to it.
    """

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        self._bytes_of = bytes_of
        self._waiting: deque[_Written] = deque()
        self._last = Token("", b"")
        self._end = 0

    def wrote(self, id_: int, text: str, scored: Scored | None = None, writer: Writer = TARGET) -> None:
        """A token came, and with it `text`: less than its bytes where a character is not whole, or more."""
        self._last = Token(text, self._bytes_of(id_), writer=writer)
        if scored is not None:
            likeliest = tuple((self._bytes_of(best), logprob) for best, logprob in scored.top)
            self._last = replace(self._last, logprob=scored.logprob, likeliest=likeliest)
        self._waiting.append(_Written(self._end, self._last))
        self._end += len(text)

    def ended(self, text: str) -> None:
        """The last token is given what the decoder had left of a character."""
        if text and self._waiting:
            last = self._waiting.pop()
            self._waiting.append(replace(last, token=replace(last.token, text=last.token.text + text)))
            self._end += len(text)

    def shown(self, text: str, read: int) -> tuple[Token, ...]:
        """The tokens of a text that was shown when the first `read` characters of the answer were read."""
        first = self._waiting[0].start if self._waiting else read
        spans = _found(text, "".join(each.token.text for each in self._waiting)[: read - first], first)
        missing = text[: len(text) - sum(stop - start for start, stop in spans)]
        starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
        tokens = []
        for each in self._waiting:
            own = spans[bisect_right(stops, each.start) : bisect_left(starts, max(each.stop, each.start + 1))]
            if own:
                tokens.append(_part(each, own))
        if missing:
            tokens = tokens or [_retold(self._last, "")]
            tokens[0] = _retold(tokens[0], missing + tokens[0].text)
        self.passed(stops[-1] if stops else first)
        return tuple(tokens)

    def passed(self, end: int) -> tuple[Token, ...]:
        """What was written before `end`, and will not be shown any more; of a token across it, the rest waits on."""
        gone: list[Token] = []
        while self._waiting and self._waiting[0].start < end:
            each = self._waiting.popleft()
            cut = end - each.start
            gone.append(each.token if each.stop <= end else _retold(each.token, each.token.text[:cut]))
            if each.stop > end:
                self._waiting.appendleft(_Written(end, _retold(each.token, each.token.text[cut:])))
        return tuple(gone)


def _found(text: str, written: str, offset: int) -> list[Span]:
    """Where the characters of `text` are in `written`, as late as can be; its beginning may be missing there."""
    at = written.rfind(text)
    if at >= 0:
        return [(at + offset, at + offset + len(text))]
    spans: list[Span] = []
    end = len(written)
    for character in reversed(text):
        end = written.rfind(character, 0, end)
        if end < 0:
            break
        spans.append((end + offset, end + offset + 1))
    return spans[::-1]


def _part(each: _Written, spans: list[Span]) -> Token:
    token = each.token
    text = "".join(token.text[max(start - each.start, 0) : stop - each.start] for start, stop in spans)
    return token if text == token.text else _retold(token, text)


def _retold(token: Token, text: str) -> Token:
    return replace(token, text=text, data=text.encode())
