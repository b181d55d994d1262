"""One tally for the whole suite, shown after it."""

import pytest

from tests.faults.tally import Tally

TALLY = pytest.StashKey[Tally]()


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Tally:
    return pytestconfig.stash.setdefault(TALLY, Tally())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = config.stash.get(TALLY, None)
    if told is not None and told.tried:
        terminalreporter.section("faults")
        for line in told.lines():
            terminalreporter.write_line(line)
