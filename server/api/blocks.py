"""Pieces of an answer as content blocks, one after the other: the same steps for a stream and for a whole answer."""

from dataclasses import dataclass
from typing import Literal, assert_never

from server.events import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning, Token

Kind = Literal["text", "thinking", "tool_use"]


@dataclass(frozen=True, slots=True)
class Block:
    """What a block is, whatever it says."""

    kind: Kind
    call: int | None = None
    """The index of the call that it is."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """A block begins. `index` counts the blocks of a message from 0."""

    index: int
    block: Block


@dataclass(frozen=True, slots=True)
class Grow:
    """It says more."""

    index: int
    block: Block
    text: str
    tokens: tuple[Token, ...] = ()
    """Those of the text, where that was asked for."""


@dataclass(frozen=True, slots=True)
class Close:
    """It is over. `text` is all it said; a call that is not `whole` was cut or broken, and must not be run."""

    index: int
    block: Block
    text: str
    whole: bool = True
    tokens: tuple[Token, ...] = ()


Step = Open | Grow | Close

_TEXT, _THINKING = Block("text"), Block("thinking")


class Blocks:
    """Opens a block where another kind of piece begins, and closes the one before."""

    def __init__(self) -> None:
        self._count = 0
        self._block: Block | None = None
        self._said: list[str] = []
        self._tokens: list[Token] = []

    def push(self, piece: Piece) -> list[Step]:
        """What one piece does."""
        match piece:
            case Content(text, tokens):
                return self._say(_TEXT, text, tokens)
            case Reasoning(text):
                return self._say(_THINKING, text)
            case CallStart(index, name):
                return self._enter(Block("tool_use", index, name))
            case CallArguments(_, fragment):
                return self._grow(fragment)
            case CallEnd():
                return self._leave(whole=True)
            case _:
                assert_never(piece)

    def finish(self) -> list[Step]:
        """The end of the answer."""
        return self._leave()

    def _say(self, block: Block, text: str, tokens: tuple[Token, ...] = ()) -> list[Step]:
        entered = [] if self._block == block else self._enter(block)
        return [*entered, *self._grow(text, tokens)]

    def _enter(self, block: Block) -> list[Step]:
        left = self._leave()
        self._block, self._said, self._tokens = block, [], []
        return [*left, Open(self._count, block)]

    def _grow(self, text: str, tokens: tuple[Token, ...] = ()) -> list[Step]:
        assert self._block is not None
        self._said.append(text)
        self._tokens += tokens
        return [Grow(self._count, self._block, text, tokens)]

    def _leave(self, *, whole: bool = False) -> list[Step]:
        block, self._block = self._block, None
        if block is None:
            return []
        is_whole = whole or block.kind != "tool_use"
        closed = Close(self._count, block, "".join(self._said), is_whole, tuple(self._tokens))
        self._count += 1
        return [closed]
