"""What is kept of one request: a line in the log, and what the metrics count."""

from dataclasses import dataclass
from typing import Any

from server.course import Figures


@dataclass(frozen=True)
class Record:
    """One request that is over. There is nothing in it of what was asked or answered."""

    id: str
    method: str
    path: str
    """As it was sent, in ASCII, without the query."""
    route: str
    """The route that it met, without `/v1`, or 'none'."""
    status: int
    outcome: str
    """'ok', or the code of what ended it."""
    seconds: float
    first_token_seconds: float | None
    figures: Figures | None
    """None where nothing was generated."""

    def fields(self) -> dict[str, Any]:
        """Everything that is known of it, by name."""
        known: dict[str, Any] = {
            "request_id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 4),
        }
        return known if self.figures is None else known | self._generated(self.figures)

    def _generated(self, figures: Figures) -> dict[str, Any]:
        return {
            "prompt_tokens": figures.prompt,
            "cached_tokens": figures.cached,
            "completion_tokens": figures.completion,
            "rounds": figures.rounds,
            "drafted": figures.drafted,
            "accepted": figures.accepted,
            "accepted_per_round": _rounded(figures.accepted_per_round, 2),
            "first_token_seconds": _rounded(self.first_token_seconds, 4),
            "seconds_per_token": _rounded(figures.seconds_per_token, 5),
            "speculation_off": figures.speculation_off,
        }

    def line(self) -> str:
        """The same for people."""
        told = f"{self.id} {self.method} {self.path} {self.status} {self.outcome} {self.seconds:.3f} s"
        if self.figures is None:
            return told
        known = {name: value for name, value in self._generated(self.figures).items() if value is not None}
        off = known.pop("speculation_off", None)
        shown = " ".join(f"{name}={value}" for name, value in known.items())
        return f"{told} {shown}" + ("" if off is None else f' speculation_off="{off}"')


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
