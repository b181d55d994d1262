"""Grammar masks for all rows of a block at once: which ids the text so far, and each draft after it, lets follow.

Compiled grammars belong to no thread; what runs one (`Constraint`) belongs to its session. Masks come from llguidance.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import mlx.core as mx
import numpy as np
from llguidance import LLExecutor, LLMatcher, LLParserLimits, LLTokenizer
from llguidance.numpy import fill_next_token_bitmask_par, fill_next_token_bitmask_par_with_draft_tokens

_BARE = r'[^"\\\x00-\x1F\x7F<]'
_SLICES = (r"[\x20\x0A\x0D\x09]+", _BARE + "{1,10}", _BARE + "{1,30}", _BARE + "+", "[^<]+")
"""Kinds of tokens that masks take or leave together: llguidance's own, without the `<` that may end an argument."""
_QUOTED = re.compile(r"\s*\d+ \|")


class GrammarError(ValueError):
    """A grammar that cannot be compiled; the message is the compiler's, without the grammar."""


class ConstraintError(RuntimeError):
    """A grammar stopped following its text: its limits were reached, or an id was kept that it forbids."""


class Constraint:
    """One session's place in its grammar. Used on the thread that owns the batch."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    @property
    def matcher(self) -> LLMatcher:
        """What computes its masks."""
        return self._matcher

    def keep(self, ids: Sequence[int]) -> None:
        """Go on by the ids that became text; stop ids are no text.

        Raises:
            ConstraintError: one of them is not allowed here.
        """
        if ids and not self._matcher.consume_tokens(list(ids)):
            raise ConstraintError(f"an answer left its grammar: {_first_line(self._matcher.get_error())}")

    def forced(self) -> tuple[int, ...]:
        """The ids of the text that must come next, as the vocabulary spells it; none where there is a choice."""
        return tuple(self._matcher.compute_ff_tokens())

    def check(self) -> None:
        """Raises `ConstraintError` where the last masks could not be computed within the limits."""
        if self._matcher.is_error():
            raise ConstraintError(f"a grammar cannot be followed: {_first_line(self._matcher.get_error())}")


@dataclass(frozen=True)
class Block:
    """Rows that draw one after another: a constraint, and the ids after its text."""

    constraint: Constraint | None
    unread: Sequence[int]
    """Ids that the constraint does not know yet, drafts last."""
    lead: int = 0
    """So many of them come before the first row."""

    @property
    def rows(self) -> int:
        """One after the lead, and one after each further id."""
        return len(self.unread) + 1 - self.lead


@dataclass(frozen=True)
class Grammar:
    """A compiled grammar, to be followed by any number of sessions."""

    _pristine: LLMatcher

    def start(self) -> Constraint:
        """Its beginning, for one session."""
        return Constraint(self._pristine.deep_copy())


class Grammars:
    """Compiles grammars over one vocabulary; may be used from any thread."""

    def __init__(self, tokenizer_json: str, vocab_size: int, eos_ids: Iterable[int]) -> None:
        """Takes up to about a second for 100,000 tokens, in which no other thread runs.

        Args:
            tokenizer_json: the text of a Hugging Face `tokenizer.json`.
            vocab_size: the width of the logits; ids beyond the tokenizer's are never allowed.
            eos_ids: what may end an answer where the grammar may.

        Raises:
            GrammarError: llguidance cannot read the tokenizer.
        """
        try:
            self._vocabulary = LLTokenizer(
                tokenizer_json, n_vocab=vocab_size, eos_token=sorted(eos_ids), slices=list(_SLICES)
            )
        except ValueError as error:
            raise GrammarError(f"the tokenizer cannot be used for grammars: {error}") from error
        self._limits = LLParserLimits(verbose_errors=False)

    def compile(self, text: str) -> Grammar:
        """Compile Lark text as llguidance reads it; other threads run meanwhile, and its size and time are bounded.

        Raises:
            GrammarError: it is none, or beyond the limits.
        """
        matcher = LLMatcher(self._vocabulary, text, log_level=0, limits=self._limits)
        # Some limits show only when a mask is asked for, and it is not too late to refuse then.
        trial = matcher.deep_copy()
        trial.consume_tokens(trial.compute_ff_tokens())
        trial.compute_bitmask()
        for tried in (matcher, trial):
            if tried.is_error():
                raise GrammarError(_told(tried.get_error()))
        return Grammar(matcher)


class Masks:
    """Applies masks to the rows of a round. Made once, on the thread that owns the arrays."""

    def __init__(self, vocab_size: int) -> None:
        """`vocab_size` is the width of the logits."""
        self._words = -(-vocab_size // 32)
        self._executor = LLExecutor()
        bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
        self._floors = mx.array(np.where(bits, 0.0, -np.inf).astype(np.float32))

    def words(self, blocks: Sequence[Block]) -> np.ndarray:
        """One mask for each row, int32 [R, ceil(vocabulary / 32)]: bit i of word w allows id 32 w + i.

        Constraints stay where they are. Rows without a constraint allow all, and so do those after an id that is not
        allowed, which cannot become text.

        Raises:
            ConstraintError: a grammar reached its limits.
        """
        filled = np.full((sum(len(block.unread) + 1 for block in blocks), self._words), -1, dtype=np.int32)
        alone, along, places, row = [], [], [], 0
        for block in blocks:
            if block.constraint is not None and block.unread:
                along.append((block.constraint.matcher, row, list(block.unread)))
            elif block.constraint is not None:
                alone.append((block.constraint.matcher, row))
            places += range(row + block.lead, row + len(block.unread) + 1)
            row += len(block.unread) + 1
        if alone:
            fill_next_token_bitmask_par(self._executor, alone, filled)
        if along:
            fill_next_token_bitmask_par_with_draft_tokens(self._executor, along, filled)
        for block in blocks:
            if block.constraint is not None:
                block.constraint.check()
        return filled if len(places) == row else filled[places]

    def __call__(self, logits: mx.array, blocks: Sequence[Block]) -> mx.array:
        """Logits [R, vocabulary] with minus infinity for the ids that their rows do not allow.

        Raises:
            ConstraintError: as `words` does.
        """
        # One look-up for eight ids costs a sixth of shifting every bit out on the CPU, and nothing on a GPU.
        octets = mx.array(self.words(blocks)).view(mx.uint8)
        floors = self._floors.astype(logits.dtype)[octets].reshape(logits.shape[0], -1)
        return logits + floors[:, : logits.shape[-1]]


def _told(error: str) -> str:
    """The compiler's message on one line, up to where it quotes the grammar."""
    if error.startswith("panic"):
        return "it is too large"
    lines = list(takewhile(lambda line: not _QUOTED.match(line), error.split("\n")))
    return " ".join(" ".join(lines).split()).rpartition("failed to compile JSON schema: ")[2]


def _first_line(error: str) -> str:
    return error.partition("\n")[0]
