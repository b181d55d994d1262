"""Everything that `laguna bench` measures, on a thread of its own, and what it comes to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from models.timing import Cost, calibrate
from models.decode.width import candidates
from models.device import Device, default_device, on_own_thread
from models.laguna import Laguna
from models.roofline import Traffic, bandwidth, traffic
from models.runtime import Runtime, load_runtime
from server.bench.answers import ARMS, Answer, answered, requests
from server.bench.prompts import ASKS
from server.loading import loading
from server.settings import Settings

CONTEXTS = (512, 2048, 8192)
"""Tokens before a round, as far as the checkpoint's own context goes."""

Watch = Callable[[str], None]


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


def measure(settings: Settings, tokens: int, contexts: Sequence[int], repeats: int, watch: Watch) -> Measured:
    """Load the pair that the settings name, measure it, and let it go.

    Args:
        settings: of the server.
        tokens: of each answer, at most.
        contexts: where rounds are timed; those that the checkpoint has no room for are left out.
        repeats: rounds of each kind that are timed.
        watch: told what is under way, on another thread.

    Raises:
        ValueError: what `load_runtime` refuses.
    """

    def work() -> Measured:
        watch("loading the pair")
        runtime = load_runtime(settings.model, settings.speculator, loading(settings))
        return measured(runtime, tokens, contexts, repeats, watch)

    return on_own_thread(work)


def measured(runtime: Runtime, tokens: int, contexts: Sequence[int], repeats: int, watch: Watch) -> Measured:
    """The same for a loaded pair, on its thread."""
    assert isinstance(runtime.target, Laguna)
    watch("measuring memory")
    speed, sizes = bandwidth(), traffic(runtime.target, runtime.footprint)
    costs = _costs(runtime, contexts, repeats, watch)
    return Measured(
        model=runtime.model_id,
        speculator=runtime.speculator_id,
        speculation_off=runtime.speculation_off,
        device=default_device(),
        costs=tuple(costs),
        answers=tuple(_answers(runtime, tokens, watch)),
        traffic=sizes,
        bandwidth=speed,
    )


def _costs(runtime: Runtime, contexts: Sequence[int], repeats: int, watch: Watch) -> list[Cost]:
    block = 1 if runtime.speculator is None else runtime.speculator.block_size
    text = list(chain.from_iterable(request("off").prompt for _, request in requests(runtime, ASKS, 1)))
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


def _answers(runtime: Runtime, tokens: int, watch: Watch) -> Iterator[Answer]:
    """Every prompt in every way, in turn; what is first run once is not counted."""
    asked = requests(runtime, ASKS, tokens)
    arms = ARMS if runtime.speculator is not None else ARMS[:1]
    batches = {arm: runtime.batch() for arm in arms}
    kind, request = asked[0]
    for arm in arms:
        answered(batches[arm], kind, request(arm))
    for place, (kind, request) in enumerate(asked):
        watch(f"answering {kind}: {place + 1} of {len(asked)}")
        for arm in arms if place % 2 == 0 else arms[::-1]:
            yield answered(batches[arm], kind, request(arm))
