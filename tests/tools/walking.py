"""Texts that a grammar lets through: walks over its masks that turn to the shortest end after a while."""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from tokenizers import Tokenizer

import models.tiny

_FILE = Path(models.tiny.__file__).parent / "tokenizer.json"
_ENDERS = ("</arg_value>", '"', "}", "]", "</think>", "</tool_call>", "1", "false", "null")
"""What ends a value, an object, a call, or is a short value."""
EOS = 24


@cache
def encoder() -> Tokenizer:
    return Tokenizer.from_file(str(_FILE))


@cache
def vocabulary() -> LLTokenizer:
    return LLTokenizer(_FILE.read_text("utf-8"), n_vocab=1024, eos_token=[2, EOS])


def matcher(grammar: str) -> LLMatcher:
    found = LLMatcher(vocabulary(), grammar, log_level=0, limits=LLParserLimits(verbose_errors=False))
    assert not found.is_error(), f"{found.get_error()}\n{grammar}"
    return found


def accepts(grammar: str, text: str) -> bool:
    """Whether the grammar lets the whole text through, and may end there."""
    found, ids = matcher(grammar), encoder().encode(text, add_special_tokens=False).ids
    return found.try_consume_tokens(ids) == len(ids) and found.is_accepting()


@dataclass(frozen=True)
class Walk:
    """A text, and whether the grammar could end where it did."""

    text: str
    ended: bool


def walk(grammar: str, seed: int, *, wander: int = 30, limit: int = 400) -> Walk:
    """`wander` ids at random, then whatever leads to an end."""
    found, chance, ids = matcher(grammar), random.Random(seed), list[int]()
    while not found.is_stopped() and len(ids) < limit:
        if found.is_accepting() and (len(ids) >= wander or chance.random() < 0.1):
            break
        hurry = len(ids) >= wander or chance.random() < 0.2
        turn = (_ending(found, chance) if hurry else None) or [chance.choice(_plain(found))]
        assert found.consume_tokens(turn), found.get_error()
        ids += turn
    return Walk(vocabulary().decode_bytes(ids).decode("utf-8", "replace"), found.is_accepting())


def _allowed(found: LLMatcher) -> list[int]:
    return np.flatnonzero(np.unpackbits(np.frombuffer(found.compute_bitmask(), np.uint8), bitorder="little")).tolist()


def _plain(found: LLMatcher) -> list[int]:
    """Ids that may follow, of whole characters where there are any."""
    allowed = [token for token in _allowed(found) if token not in (2, EOS)]
    return [token for token in allowed if vocabulary().decode_bytes([token]).isascii()] or allowed


def _ending(found: LLMatcher, chance: random.Random) -> list[int] | None:
    """What is forced; else the ender after which the least may follow, since a text goes on with anything."""
    forced = found.compute_ff_tokens()
    if forced:
        return forced[:1]
    ways = []
    for ender in _ENDERS:
        ids, copy = encoder().encode(ender, add_special_tokens=False).ids, found.deep_copy()
        if copy.try_consume_tokens(ids) == len(ids):
            ways.append((len(_allowed(copy)), chance.random(), ids))
    return min(ways)[2] if ways else None
