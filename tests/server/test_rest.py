"""What the engine's thread does while nobody wants anything of it."""

from models.decode.prefix import PrefixStore
from server.admission import Room
from server.pulse import Pulse
from server.rounds import Rounds
from server.ticket import Line
from tests.decode.random_pair import LARGE
from tests.server.script import ScriptPair, says


class LookedAfter(PrefixStore):
    """Closes the line when it is looked after, so that the thread ends instead of sleeping."""

    def __init__(self, line: Line) -> None:
        super().__init__(LARGE)
        self.line, self.times = line, 0

    def tidy(self) -> None:
        self.times += 1
        super().tidy()
        self.line.close()


def test_what_is_kept_is_looked_after_before_the_thread_sleeps() -> None:
    line = Line()
    store = LookedAfter(line)
    where = ScriptPair(says("x")), line, Pulse(), lambda _: None
    Rounds(*where, places=1, chunk=8, room=Room(1, lambda tokens: tokens), prefix=store).run()
    assert store.times == 1
