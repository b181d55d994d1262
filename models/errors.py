"""What may be wrong with a checkpoint or a pair, as errors whose message says what to do."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be found, fetched, read or used."""


class UnknownCheckpointError(CheckpointError):
    """A name that is no folder here, and is not spelled as one of the hub's."""


class PairError(CheckpointError):
    """A target and a speculator that do not belong together."""


class SpeculatorKindError(PairError):
    """A speculator of an architecture that does not run here."""
