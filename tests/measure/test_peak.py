"""A process is charged with its own memory only."""

import subprocess
import sys

from tests.peak import peak

MIB = 2**20
CHILD = "from tests.peak import peak; print(peak())"
PARENT = f"""
import subprocess, sys
held = bytearray(b"x" * {300 * MIB})
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
"""


def test_what_a_parent_holds_does_not_count_as_its_childs() -> None:
    run = subprocess.run([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, check=True, text=True)
    assert 0 < int(run.stdout) < 100 * MIB


def test_what_was_held_once_counts() -> None:
    before = peak()
    held = bytearray(b"x" * (before + 50 * MIB))
    assert peak() >= len(held)
