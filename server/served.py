"""What the event loop knows of the loaded pair: names, numbers and the tokenizer, no array."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models.decode.session import Sampling
from server.admission import room
from server.backend import Grammars, Pair, Tokenizer
from server.replay import Replay
from server.settings import Settings
from server.turn import Speculation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Model:
    """The one model served."""

    id: str
    names: frozenset[str]
    """Every spelling that a request may use for it."""
    created: int
    """Unix seconds when it was loaded."""
    tokenizer: Tokenizer
    grammars: Grammars | None
    """None where its vocabulary does not do for grammars."""
    context_length: int
    """Prompt and answer together, in tokens."""
    room: int
    """Bytes for conversations and what is kept of them."""
    sampling: Sampling
    """For requests that do not say."""
    template_kwargs: Mapping[str, Any]
    speculation: Speculation
    """For requests that do not say."""
    speculation_off: str | None
    """Why nothing can be drafted, or None."""
    speculator: str | None
    """What the speculator is called, or None."""
    warnings: tuple[str, ...]
    """What is doubtful about the pair."""
    request_timeout: float | None = None
    """Seconds that an answer may take."""
    log_prompts: bool = False
    replay: Replay = field(default_factory=Replay)
    """Its answers, as they were sampled."""


def served(pair: Pair, settings: Settings, replay: Replay | None = None) -> Model:
    """The facts about a loaded pair, narrowed by the settings; `replay` are the answers that were given so far."""
    asked = (
        pair.context_length if settings.context_length is None else min(settings.context_length, pair.context_length)
    )
    if settings.context_length is not None and settings.context_length > asked:
        log.warning("a context of %d tokens was asked for; the checkpoint has %d", settings.context_length, asked)
    fitting = room(pair, settings).longest(asked, pair.session_bytes)
    if fitting < asked:
        log.warning("memory holds conversations of %d tokens, so longer ones than that are refused", fitting)
    defaults = pair.sampling_defaults
    spellings = {pair.model_id} if settings.model is None else {pair.model_id, settings.model.rstrip("/")}
    return Model(
        id=pair.model_id,
        names=frozenset(spellings | {name.rpartition("/")[2] for name in spellings}),
        created=int(time.time()),
        tokenizer=pair.tokenizer,
        grammars=pair.grammars,
        context_length=fitting,
        room=pair.left,
        sampling=Sampling(defaults.temperature, defaults.top_k, defaults.top_p, defaults.min_p),
        template_kwargs=pair.default_chat_template_kwargs,
        speculation=settings.speculation,
        speculation_off=pair.speculation_off,
        speculator=pair.speculator_id,
        warnings=pair.warnings,
        request_timeout=settings.request_timeout,
        log_prompts=settings.log_prompts,
        replay=Replay() if replay is None else replay,
    )
