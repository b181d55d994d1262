"""The words that generated chats are made of, and new ones made of syllables."""

import tomllib
from pathlib import Path
from random import Random

_KNOWN = tomllib.loads((Path(__file__).parent / "words.toml").read_text())


def _list(name: str) -> list[str]:
    return _KNOWN[name].split()


CITIES = _list("cities")
NAMES = _list("names")
SKIES = _list("skies")
ROOMS = _list("rooms")
COLORS = _list("colors")
THINGS = _list("things")
TOPICS = _list("topics")
FOLDERS = _list("folders")
FILES = _list("files")
SUFFIXES = _list("suffixes")
EVENTS = _list("events")
DAYS = _list("days")
MODES = _list("modes")
UNITS = _list("units")
ONSETS = _list("onsets")
VOWELS = _list("vowels")
PHRASES = tuple(_KNOWN["phrases"])
COUNTRIES: dict[str, str] = _KNOWN["countries"]
CODAS = ["", "", "", "n", "r", "l", "m", "k", "x", "sh", "nd", "rt"]


def invented(rng: Random, syllables: int | None = None) -> str:
    """A new lower-case word of one to three syllables."""
    count = syllables or rng.choice((1, 2, 2, 2, 3))
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count))


def word(rng: Random, known: list[str] | tuple[str, ...], new: float = 0.3) -> str:
    """One of the `known` words, or with probability `new` an invented one in the same case."""
    if rng.random() >= new:
        return rng.choice(known)
    made = invented(rng)
    return made.capitalize() if known[0][0].isupper() else made


def path(rng: Random) -> str:
    """A file's path."""
    name = f"{word(rng, FILES)}.{rng.choice(SUFFIXES)}"
    return f"{word(rng, FOLDERS)}/{name}" if rng.random() < 0.6 else name


def number(rng: Random, top: int = 9999) -> int:
    """A number whose count of digits is about uniform."""
    return rng.randint(0, min(top, 10 ** rng.randint(1, len(str(top))) - 1))
