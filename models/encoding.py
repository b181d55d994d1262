"""Ids of a prompt in which what messages spell is text, and all else is encoded as it always is."""

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import tokenizers

from models.spelling import Rendered

_FRAMED = re.compile(r"[<\[〈].*[>\]〉]", re.DOTALL)
"""What control tokens look like; any other added token that is not special may stand in any text."""

_REST = "text"
"""A word for whatever is no added token."""


def special_tokens(encoder: tokenizers.Tokenizer) -> dict[int, str]:
    """The tokens, by their ids, that only a template may write."""
    added = encoder.get_added_tokens_decoder()
    return {id_: token.content for id_, token in added.items() if token.special or _FRAMED.fullmatch(token.content)}


def exact(encoder: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same, but special tokens are found only as they are spelt, not in what a normaliser makes of a text.

    Templates spell them exactly; a message could spell `<think>` in full-width letters else.
    """
    if encoder.normalizer is None:
        return encoder
    spec, special = json.loads(encoder.to_str()), special_tokens(encoder).values()
    for token in spec["added_tokens"]:
        token["normalized"] = token["normalized"] and token["content"] not in special
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def without(encoder: tokenizers.Tokenizer, tokens: Collection[str]) -> tokenizers.Tokenizer:
    """The same vocabulary and merges, to which these added tokens are ordinary text."""
    spec = json.loads(encoder.to_str())
    kept = [token for token in spec["added_tokens"] if token["content"] not in tokens]
    spec |= {"added_tokens": kept, "post_processor": None}
    model = spec["model"]
    if model.get("ignore_merges"):
        # Such a model takes whole words from its vocabulary, however they came there.
        made = {"".join(merge) if isinstance(merge, list) else merge.replace(" ", "") for merge in model["merges"]}
        model["vocab"] = {token: id_ for token, id_ in model["vocab"].items() if token in made or token not in tokens}
    # An added token that the model's own vocabulary does not know would be given another id.
    model["vocab"] |= {token["content"]: encoder.token_to_id(token["content"]) for token in kept}
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def cutter(encoder: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """What finds the encoder's added tokens just as it does, and takes every text between them for one token."""
    spec = json.loads(encoder.to_str())
    vocab = {token["content"]: token["id"] for token in spec["added_tokens"]}
    rest = max(vocab.values(), default=0) + 1
    model = {"type": "WordLevel", "vocab": vocab | {_REST: rest}, "unk_token": _REST}
    spec |= {"model": model, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


class PromptEncoder:
    """An encoder, and what else prompts take in which a message spells something. Safe to use from any thread."""

    def __init__(self, encoder: tokenizers.Tokenizer) -> None:
        """Takes a second for a vocabulary of 100,000, so that no request has to wait for it."""
        self._special = special_tokens(encoder)
        self._encoder = encoder
        self._cuts = cutter(encoder)
        self._plain = without(encoder, frozenset(self._special.values()))

    def encode_at(self, prompt: Rendered, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Ids, and for each of the characters `places` of `prompt.marked` how many ids lie wholly before it."""
        if prompt.mark:
            return encode_marked(self._cuts, self._plain, self._special, prompt, places)
        encoding = self._encoder.encode_batch([prompt.marked], add_special_tokens=False)[0]
        tokens = [encoding.char_to_token(place) for place in places]
        ids = encoding.ids
        return ids, [len(ids) if token is None else token for token in tokens]


@dataclass(frozen=True)
class _Stretch:
    """A stretch of text between special tokens, or one of those."""

    start: int
    """Its first character in the marked text."""
    first: int
    """How many ids lie before it."""
    ids: Sequence[int]
    text: tokenizers.Encoding | None
    """None where it is a special token."""

    def before(self, place: int, prompt: Rendered) -> int:
        """How many ids of the whole prompt lie wholly before one of its characters."""
        if self.text is None:
            return self.first
        token = self.text.char_to_token(place - self.start - prompt.marked.count(prompt.mark, self.start, place))
        return self.first + (len(self.ids) if token is None else token)


def encode_marked(
    cuts: tokenizers.Tokenizer,
    plain: tokenizers.Tokenizer,
    special: Collection[int],
    prompt: Rendered,
    places: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Ids, and for each of the characters `places` of `prompt.marked` how many ids lie wholly before it.

    A tokenizer cuts a text at its special tokens and encodes every stretch between them by itself. The mark hides what
    only looks like one, so the cuts are the template's; the stretches are then encoded as text, without the mark.

    Args:
        cuts: the `cutter` of an encoder.
        plain: the same encoder `without` its special tokens.
        special: their ids.
        prompt: of which `mark` is not empty.
        places: characters, in any order.
    """
    whole = cuts.encode_batch([prompt.marked], add_special_tokens=False)[0]
    found = [(id_, *span) for id_, span in zip(whole.ids, whole.offsets, strict=True) if id_ in special]
    edges = [(0, 0), *((start, stop) for _, start, stop in found), (len(prompt.marked), len(prompt.marked))]
    between = [(last[1], next_[0]) for last, next_ in pairwise(edges)]
    texts = plain.encode_batch([prompt.between(*span) for span in between], add_special_tokens=False)
    stretches: list[_Stretch] = []
    total = 0
    for (start, stop), text, own in zip_longest(between, texts, found):
        stretches.append(_Stretch(start, total, text.ids, text))
        total += len(text.ids)
        if own is not None:
            stretches.append(_Stretch(stop, total, own[:1], None))
            total += 1
    starts = [stretch.start for stretch in stretches]
    before = [stretches[bisect_right(starts, place) - 1].before(place, prompt) for place in places]
    return [id_ for stretch in stretches for id_ in stretch.ids], before
