"""How far the model is on its way, told by the threads that bring it and read by the loop; and the way to turn back."""

from models.progress import Progress, Report, unreported


class TurnedBack(Exception):
    """The server stops while its model is still being fetched or loaded."""


class Arrival:
    """One load. Each side writes one attribute, so no lock is needed."""

    def __init__(self, show: Report = unreported) -> None:
        self._show = show
        self._latest: Progress | None = None
        self._turned_back = False

    @property
    def latest(self) -> Progress | None:
        """The newest step; None before the first."""
        return self._latest

    @property
    def fetching(self) -> bool:
        """Whether files are still coming: a transfer may take long to notice that it should end, and holds no array."""
        return self._latest is not None and self._latest.phase == "download"

    def report(self, progress: Progress) -> None:
        """Take note of a step, and show it.

        Raises:
            TurnedBack: nobody waits for the model any more.
        """
        if self._turned_back:
            raise TurnedBack
        self._latest = progress
        self._show(progress)

    def turn_back(self) -> None:
        """Let the next step end the load."""
        self._turned_back = True
