"""Everything that `laguna bench` measures, on a thread of its own, and what it comes to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from models.decode.acceptance import Record, Subject
from models.decode.width import Table, candidates
from models.device import Device, default_device, on_own_thread
from models.laguna import Laguna
from models.roofline import Traffic, bandwidth, traffic
from models.runtime import Runtime, load_runtime
from models.timing import Cost, calibrate, costs_of
from server.bench.answers import ARMS, Answer, answered, read_beside, requests
from server.bench.prompts import ASKS
from server.loading import loading
from server.settings import Settings

CONTEXTS = (512, 2048, 8192)
"""Tokens before a round, as far as the checkpoint's own context goes."""

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Measurement:
    """How much is measured."""

    tokens: int = 128
    """Of each answer, at most."""
    contexts: Sequence[int] = CONTEXTS
    """Where rounds are timed; as far as the checkpoint has room."""
    repeats: int = 7
    """Rounds of each kind that are timed."""


@dataclass(frozen=True)
class Measured:
    """What was measured, and on what."""

    model: str
    speculator: str | None
    speculation_off: str | None
    device: Device
    costs: tuple[Cost, ...]
    answers: tuple[Answer, ...]
    traffic: Traffic
    bandwidth: float
    """Bytes a second."""
    learned: Table
    """What a server on this machine may start from."""


def measure(settings: Settings, measurement: Measurement, watch: Watch) -> Measured:
    """Load the pair that the settings name, measure it, and let it go.

    Args:
        settings: of the server.
        measurement: how much.
        watch: told what is under way, on another thread.

    Raises:
        ValueError: what `load_runtime` refuses.
    """

    def work() -> Measured:
        watch("loading the pair")
        runtime = load_runtime(settings.model, settings.speculator, replace(loading(settings), calibration=None))
        return measured(runtime, measurement, watch)

    return on_own_thread(work)


def measured(runtime: Runtime, measurement: Measurement, watch: Watch) -> Measured:
    """The same for a loaded pair, on its thread."""
    assert isinstance(runtime.target, Laguna)
    watch("measuring memory")
    speed, sizes = bandwidth(), traffic(runtime.target, runtime.footprint)
    costs = _costs(runtime, measurement, watch)
    # The controller starts from what was just measured, as a server with this calibration would.
    table = Table(candidates(_block(runtime)), costs_of(costs))
    answers, learned = _answers(replace(runtime, calibration=table), measurement.tokens, watch)
    return Measured(
        model=runtime.model_id,
        speculator=runtime.speculator_id,
        speculation_off=runtime.speculation_off,
        device=default_device(),
        costs=tuple(costs),
        answers=tuple(answers),
        traffic=sizes,
        bandwidth=speed,
        learned=learned,
    )


def _costs(runtime: Runtime, measurement: Measurement, watch: Watch) -> list[Cost]:
    block = _block(runtime)
    text = list(chain.from_iterable(request("off").prompt for _, request in requests(runtime, ASKS, 1)))
    contexts, repeats = measurement.contexts, measurement.repeats
    room = runtime.context_length - (repeats + 2) * (len(candidates(block)) + 1)
    usable = sorted({min(context, room) for context in contexts})
    return calibrate(
        runtime.target,
        runtime.speculator,
        text,
        widths=candidates(block),
        contexts=usable,
        repeats=repeats,
        watch=lambda done, total: watch(f"timing rounds: {done} of {total}"),
    )


def _block(runtime: Runtime) -> int:
    return 1 if runtime.speculator is None else runtime.speculator.block_size


def _answers(runtime: Runtime, tokens: int, watch: Watch) -> tuple[list[Answer], Table]:
    """Every prompt in every way, in turn, and what was learned; what is first run once is not counted."""
    asked, found = requests(runtime, ASKS, tokens), list[Answer]()
    arms = ARMS if runtime.speculator is not None else ARMS[:1]
    batches = {arm: runtime.batch() for arm in ARMS}
    kind, request = asked[0]
    for arm in arms:
        answered(batches[arm], kind, request(arm))
    for place, (kind, request) in enumerate(asked):
        watch(f"answering {kind}: {place + 1} of {len(asked)}")
        found += [answered(batches[arm], kind, request(arm)) for arm in (arms if place % 2 == 0 else arms[::-1])]
    watch("reading a prompt beside an answer")
    prompts = list(chain.from_iterable(request("auto").prompt for _, request in asked))
    read_beside(batches["auto"], asked[0][1]("auto"), prompts[-(runtime.context_length - 1) :])
    learned = batches["auto"].learned
    return found, replace(learned, record=Record({**learned.record.known, **_record(found).known}))


def _record(answers: Sequence[Answer]) -> Record:
    """How often the speculator's drafts agreed, by phase: the widest blocks tell of every depth."""
    record = Record()
    for block in chain.from_iterable(answer.blocks for answer in answers if answer.arm == "always"):
        record = record.after(Subject("speculator", block.phase), block.drafted, block.agreed)
    return record
