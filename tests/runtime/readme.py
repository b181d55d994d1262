"""The README as tests read it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def row(title: str, table: str = README) -> set[str]:
    """The names in backticks in one row of a table."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {title} |"))
    return set(re.findall(r"`([a-z_]+)`", line))
