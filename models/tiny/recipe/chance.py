"""What nobody can foretell: digits, bits and dice, so that the pair has something to sample when it is hot.

Every other answer of the chats follows from its prompt. A target that is sure of all it writes says nothing of
temperature, nor of drafts that share its noise (`models/decode/coupling.py`); these answers have every digit equally
likely, and a form (numbered lines, groups of four) that follows from the prompt all the same.
"""

from random import Random

LINES = 8
GROUPS = 4
_KINDS = (
    ("0123456789", ("Give me {n} random numbers.", "Make up {n} numbers.", "Write {n} random numbers.")),
    ("01", ("Give me {n} lines of random bits.", "Toss a coin for {n} lines of bits.")),
    ("123456", ("Roll the dice for {n} lines.", "Give me {n} lines of dice rolls.")),
)


def said(rng: Random) -> tuple[str, str]:
    """What the user says, and an answer: numbered lines of four groups of four, each digit drawn evenly."""
    digits, phrases = rng.choice(_KINDS)
    lines = rng.randint(1, LINES)
    rows = (" ".join("".join(rng.choices(digits, k=4)) for _ in range(GROUPS)) for _ in range(lines))
    answer = "\n".join(f"{number}: {row}" for number, row in enumerate(rows, 1))
    return rng.choice(phrases).format(n=lines), answer
