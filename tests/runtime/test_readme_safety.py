"""The README's limits and statuses are those of the code."""

import re

from server import serving
from server.api.limits import DEPTH, MOST, PARTS
from server.door.bounds import HEAD_BYTES, HEAD_FIELDS, URL_BYTES
from server.door.keys import OPEN
from server.draining import HARD_STOP, LAST_WORDS
from server.engine import FLUSH
from server.settings import Settings
from tests.runtime.readme import README

SECTION = README.partition("## Safety and limits\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`--[^|]*) \|([^|]*)\|", README, re.MULTILINE)


def test_every_setting_is_told_once_with_its_default() -> None:
    told = [
        (flag.replace("-", "_"), default.strip())
        for flags, default in ROWS
        for flag in re.findall(r"`--([a-z0-9-]+)`", flags)
    ]
    assert sorted(name for name, _ in told) == sorted(Settings.model_fields)
    assert dict(told) == {name: shown(name, field.default) for name, field in Settings.model_fields.items()}


def shown(name: str, default: object) -> str:
    """A default as the tables have it."""
    if default is None or default == () or default is False:
        return "none" if name == "request_timeout" else "off" if default is False else ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_fixed_limits_are_those_that_are_told() -> None:
    for told in (
        f"{HEAD_FIELDS} headers and {HEAD_BYTES >> 10} KiB",
        f"URLs of {URL_BYTES >> 10} KiB",
        f"JSON {DEPTH} levels deep",
        f"{MOST['messages']:,} messages",
        f"{MOST['tools']} tools",
        f"{PARTS} content parts",
    ):
        assert told in SECTION.replace("\n", " "), told
    assert all(f"`{path}`" in SECTION for path in OPEN)
    assert LAST_WORDS + FLUSH < HARD_STOP <= 3


def test_the_exit_statuses_are_those_that_are_told() -> None:
    told = [int(status) for status in re.findall(r"^\| (\d) \|", SECTION, re.MULTILINE)]
    assert told == [serving.STOPPED, serving.NOT_STARTED, serving.WRONG_SETTINGS, serving.DIED]
