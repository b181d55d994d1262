"""What a suite of faults comes to: cases tried, and requests that were lost or hung."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.outcome import Outcome


@dataclass
class Tally:
    """Counts by scenario, in the order in which the scenarios came."""

    tried: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    hung: Counter[str] = field(default_factory=Counter)

    def case(self, scenario: str, *, lost: int = 0, hung: int = 0, tried: int = 1) -> None:
        """Count what became of so many cases, and fail where one was lost or hung."""
        self.tried[scenario] += tried
        self.lost[scenario] += lost
        self.hung[scenario] += hung
        assert (lost, hung) == (0, 0), f"{scenario}: {lost} lost, {hung} hung of {tried}"

    def outcomes(self, scenario: str, outcomes: Iterable[Outcome]) -> None:
        """Count requests whose clients waited for the end."""
        heard = list(outcomes)
        hung = sum(outcome.end == "hung" for outcome in heard)
        lost = sum(outcome.end == "cut" for outcome in heard)
        self.case(scenario, lost=lost, hung=hung, tried=len(heard))

    def lines(self) -> list[str]:
        """The table."""
        rows = [(name, self.tried[name], self.lost[name], self.hung[name]) for name in self.tried]
        total = ("all", self.tried.total(), self.lost.total(), self.hung.total())
        head = f"{'scenario':52}{'tried':>8}{'lost':>6}{'hung':>6}"
        return [head, *(f"{name:52}{tried:8}{lost:6}{hung:6}" for name, tried, lost, hung in (*rows, total))]
