"""A scripted pair whose batches call a test before they take up or drop a session."""

from collections.abc import Callable
from dataclasses import dataclass, field

from models.decode.batch import Update
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Session
from models.decode.width import Table
from tests.server.script import ScriptBatch, ScriptPair

Hook = Callable[[Session | Request], None]


def nothing(_: Session | Request) -> None:
    pass


@dataclass
class HookedPair(ScriptPair):
    """Its batches call these before they take up or drop a session, and note what they started from."""

    adding: Hook = nothing
    dropping: Hook = nothing
    started: list[Table | None] = field(default_factory=list)

    def batch(
        self, *, prefill_chunk: int, prefix: PrefixStore | None = None, learned: Table | None = None
    ) -> "HookedBatch":
        self.started.append(learned)
        self.sessions = 0
        return HookedBatch(self, learned)


class HookedBatch(ScriptBatch):
    """Calls the hooks."""

    def __init__(self, pair: HookedPair, learned: Table | None) -> None:
        super().__init__(pair, learned)
        self._hooks = pair

    def add(self, request: Request) -> Session:
        self._hooks.adding(request)
        return super().add(request)

    def cancel(self, session: Session) -> None:
        self._hooks.dropping(session)
        super().cancel(session)

    def step(self) -> list[Update]:
        updates = super().step()
        self.learned = Table((1,), decisions=1)
        return updates
