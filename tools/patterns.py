"""JSON schema's patterns and formats as regular expressions over the bare text of an argument.

The expressions are Rust's, between the slashes of a Lark grammar; they have neither look-around nor back-references.
"""

import re
from collections.abc import Mapping

_DIGIT4, _MONTH, _DAY = "[0-9]{4}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_DATE = f"{_DIGIT4}-{_MONTH}-{_DAY}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

FORMATS: Mapping[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "email": rf"[a-zA-Z0-9_+-]+(?:\.[a-zA-Z0-9_+-]+)*@{_HOST}",
    "hostname": _HOST,
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
    "uuid": "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[a-zA-Z][a-zA-Z0-9+.-]*:[!#-;=?-\[\]_a-z~]+",
}
"""The formats an argument can be held to (RFC 3339, 5321, 1123, 2673, 9562, 3986, each in its usual shape)."""

_BEYOND = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P[=>])|\\[1-9kbBAZzGK]|[*+?}]\+")
"""Look-around, back-references, boundaries, atomic groups: what an automaton over the text cannot follow."""
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_CLASSES: Mapping[str, str] = {r"\d": "0-9", r"\w": "a-zA-Z0-9_", r"\/": "/"}


def expression(pattern: str) -> str | None:
    """What a whole text must match so that `pattern` is found in it, or None where that cannot be expressed.

    Digits and word characters are ASCII, as in the schema's own dialect of expressions (ECMA 262).
    """
    if _BEYOND.search(pattern) or "&&" in pattern or "--" in pattern:
        return None
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    parts = _PARTS.findall(pattern)
    begins, ends = parts[:1] == ["^"], parts[-1:] == ["$"]
    inner = parts[begins : len(parts) - ends]
    # An anchor elsewhere, or one that belongs to a single branch, has no counterpart.
    if "^" in inner or "$" in inner or ((begins or ends) and "|" in inner):
        return None
    body = "".join(_part(part) for part in inner)
    return ("" if begins else "(?s:.*)") + f"(?:{body})" + ("" if ends else "(?s:.*)")


def slashed(regex: str) -> str:
    """`regex` between slashes, as a Lark grammar writes it."""
    return "/" + re.sub(r"\\.|/|\n", lambda found: {"/": r"\/", "\n": r"\n"}.get(found[0], found[0]), regex) + "/"


def _part(part: str) -> str:
    if part.startswith("[") and len(part) > 1:
        return re.sub(r"\\.", lambda found: _CLASSES.get(found[0], found[0]), part, flags=re.DOTALL)
    if part in _CLASSES:
        return part[1:] if part == r"\/" else f"[{_CLASSES[part]}]"
    return part
