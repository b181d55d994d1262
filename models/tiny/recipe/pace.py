"""How long and how fast a network is trained: a short warm-up, a constant rate, a linear decay."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """The parts that both networks' plans have."""

    seconds: float
    rate: float = 2.5e-3
    warm: float = 0.02
    decay_from: float = 0.5
    """The shares of the time at which the warm-up ends and the decay begins."""
    first_chat: int = 0
    """The training chat to begin with; a run that goes on from another one takes later chats."""

    def rate_at(self, done: float) -> float:
        """The learning rate when the share `done` of the time is over."""
        if done < self.warm:
            return self.rate * done / self.warm
        return self.rate * min(1.0, max(0.03, (1 - done) / (1 - self.decay_from)))
