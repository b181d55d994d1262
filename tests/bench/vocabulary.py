"""A vocabulary as wide as a real one: 100,352 pieces of the standard library's sources over the embedded specials."""

import json
import re
import sysconfig
from collections import Counter
from pathlib import Path

import models.tiny
from models.tokenizer import byte_alphabet

SIZE = 100_352
"""Rows of the head of Laguna XS and S."""
_PIECES = re.compile(r" ?[A-Za-z_]+| ?\d{1,3}| ?[^\sA-Za-z_\d]+|\s+")
_LONGEST = 16


def wide_tokenizer() -> str:
    """The text of a `tokenizer.json`; its pieces are whole words, the most frequent first, so it needs no training."""
    tokenizer = json.loads((Path(models.tiny.__file__).parent / "tokenizer.json").read_text("utf-8"))
    vocabulary = {token["content"]: place for place, token in enumerate(tokenizer["added_tokens"])}
    alphabet = {byte: character for character, byte in byte_alphabet().items()}
    for text in ("".join(alphabet[byte] for byte in piece) for piece in _pieces()):
        vocabulary.setdefault(text, len(vocabulary))
        if len(vocabulary) == SIZE:
            break
    tokenizer["model"] |= {"vocab": vocabulary, "merges": []}
    return json.dumps(tokenizer)


def _pieces() -> list[bytes]:
    """Every byte, then words and marks of the sources with their beginnings, the most frequent first."""
    words: Counter[str] = Counter()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        words.update(_PIECES.findall(path.read_text("utf-8", "replace")))
    counted: Counter[str] = Counter()
    for word, count in words.items():
        for length in range(2, min(len(word), _LONGEST) + 1):
            counted[word[:length]] += count
    return [*(bytes([byte]) for byte in range(256)), *(word.encode() for word, _ in counted.most_common())]
