"""The README's limits and statuses are those of the code."""

import re

from server import serving
from server.api.limits import DEPTH, MOST, PARTS
from server.door.bounds import HEAD_BYTES, HEAD_FIELDS, URL_BYTES
from server.door.keys import OPEN
from server.draining import HARD_STOP
from server.settings import Settings
from tests.runtime.readme import README

SECTION = README.partition("## Safety and limits\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`--[^|]*) \|([^|]*)\|", SECTION, re.MULTILINE)


def test_every_flag_exists_and_has_the_default_that_is_told() -> None:
    assert len(ROWS) > 10
    for flags, told in ROWS:
        for flag in re.findall(r"`--([a-z-]+)`", flags):
            default = Settings.model_fields[flag.replace("-", "_")].default
            known = {(): "", None: "none" if flag == "request-timeout" else "", False: "off"}
            expected = (
                known[default] if default in ((), None, False) else f"{default:g}" if default == 60 else str(default)
            )
            assert told.strip() == expected, flag


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
    assert HARD_STOP <= 3


def test_the_exit_statuses_are_those_that_are_told() -> None:
    told = [int(status) for status in re.findall(r"^\| (\d) \|", SECTION, re.MULTILINE)]
    assert told == [serving.STOPPED, serving.NOT_STARTED, serving.WRONG_SETTINGS, serving.DIED]
