"""The figures of a soak, from made-up samples."""

import pytest

from tests.faults.outcome import Outcome
from tests.faults.soak import Sample, drift, report, slope
from tests.faults.traffic import Account

STEADY = [Sample(10.0 * step, 200.0, 50 * step) for step in range(25)]
GROWING = [Sample(10.0 * step, 200.0 + step, 50 * step) for step in range(25)]
TIRING = [Sample(10.0 * step, 200.0, 50 * min(step, 16) + 25 * max(0, step - 16)) for step in range(25)]


def test_slope_and_drift_are_those_of_the_samples() -> None:
    assert (slope(STEADY), drift(STEADY)) == (pytest.approx(0, abs=1e-9), pytest.approx(0))
    assert slope(GROWING) == pytest.approx(6)
    assert drift(TIRING) == pytest.approx(-0.5)


def test_an_account_holds_every_fault_and_only_faults() -> None:
    account = Account()
    account.note("chat", Outcome("answered", 200, "x"))
    account.note("wrong", Outcome("refused", 400, code="invalid_type"))
    assert account.faults == []
    account.note("chat", Outcome("cut", 200))
    account.note("chat", Outcome("hung"))
    account.note("chat", Outcome("refused", 500, code="internal_error"))
    account.note("probe", Outcome("answered", 200, "a"))
    account.note("probe", Outcome("answered", 200, "a"))
    account.note("probe", Outcome("answered", 200, "b"))
    assert len(account.faults) == 4
    told = "\n".join(report(STEADY, account, {"running": 0, "waiting": 0}))
    assert "internal_error" not in told.split("faults")[0].split("ends")[0]
    assert "slope of memory             " in told
