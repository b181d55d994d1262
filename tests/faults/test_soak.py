"""The figures of a soak, from made-up samples."""

import pytest

from tests.faults.outcome import Outcome
from tests.faults.soak import Sample, drift, missed, report, seconds_of, slope
from tests.faults.traffic import Account


def made(mib: float = 0.0, cost: float = 0.1, pace: int = 50, kept: float = 0.0) -> list[Sample]:
    """Samples of a server that grows by so many MiB a sample and whose answers cost so much more from two thirds on."""
    counts = [pace * min(step, 16) + round(pace / 2) * max(0, step - 16) for step in range(25)]
    spent = [0.1 * count + (cost - 0.1) * max(0, count - counts[16]) for count in counts]
    return [Sample(10.0 * step, spent[step], 200.0 + mib * step, kept * step, counts[step]) for step in range(25)]


def test_slope_and_drift_are_those_of_the_samples() -> None:
    steady = made()
    assert slope(steady) == pytest.approx(0, abs=1e-9)
    assert drift(steady, lambda sample: sample.seconds) == pytest.approx(-0.5)
    assert drift(steady, lambda sample: sample.cpu) == pytest.approx(0)
    assert slope(made(mib=1)) == pytest.approx(6)
    assert drift(made(cost=0.2), lambda sample: sample.cpu) == pytest.approx(-0.5)


def test_what_gets_slower_or_larger_is_a_fault_and_a_busy_machine_is_none() -> None:
    assert missed(made()) == []
    assert missed(made(cost=0.12)) == []
    assert missed(made(cost=0.2)) == ["an answer costs more and more: -50.0% for the same work"]
    (grown,) = missed(made(mib=3))
    assert grown.startswith("memory grows by ")
    assert missed(made(mib=0.5)) == []
    assert missed(made(mib=3, kept=3)) == [], "it fills what it may"
    assert missed(made(mib=3, cost=0.2, pace=40)) == [], "too few answers to tell"


@pytest.mark.parametrize(
    ("told", "seconds"), [("00:01:02", 62), ("2-00:00:01", 172_801), ("1:02.50", 62.5), ("100:00.01", 6000.01)]
)
def test_times_are_read_as_ps_writes_them_on_either_system(told: str, seconds: float) -> None:
    assert seconds_of(told) == seconds


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
    told = "\n".join(report(made(), account, {"running": 0, "waiting": 0}))
    assert "internal_error" not in told.split("faults")[0].split("ends")[0]
    assert "slope of memory             " in told
    assert "judged                      both" in told
    assert "neither: fewer than 200" in "\n".join(report(made(pace=40), account, {"running": 0, "waiting": 0}))
