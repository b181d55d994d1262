"""Target, speculator and tokenizer of one checkpoint, loaded together on the thread that will run them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx

from models.calibration import Measured, read_calibration
from models.checkpoint import EMBEDDED, find_checkpoint, prepare_speculator, prepare_target, read_weights, run_dtype
from models.contract import Speculator, Target
from models.decode.batch import Batch
from models.decode.constraint import GrammarError, Grammars
from models.decode.prefix import PrefixStore
from models.decode.width import Table
from models.dflash_laguna import DFlashLaguna
from models.errors import CheckpointError
from models.finding import Choice, choose, hub_name
from models.fingerprint import fingerprint
from models.generation import Generation, read_generation
from models.laguna import Laguna
from models.loading import DEFAULTS, Loading, attention_factor_warnings
from models.machine import memory_limit
from models.memory import Footprint, Limit, check_memory, gib
from models.packing import read_packing, saving
from models.pairing import MASK, is_speculator, mask_warnings
from models.quantising import quantising_warnings
from models.settling import weigh
from models.tokenizer import Tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Runtime:
    """Everything that answers. Its arrays belong to the thread that called `load_runtime`."""

    model_id: str
    target: Target
    speculator: Speculator | None
    speculation_off: str | None
    """Why there is no speculator; None when there is one."""
    speculator_id: str | None
    """Its name on the hub or its folder's; None when there is none."""
    tokenizer: Tokenizer
    grammars: Grammars | None
    """What compiles grammars over the vocabulary; None where that cannot be done."""
    context_length: int
    """Prompt and answer together, in tokens."""
    fingerprint: str
    """A name for all that the numbers depend on: files, precision and how they were loaded."""
    footprint: Footprint
    memory: Limit
    """What weights and sessions together may take."""
    sampling_defaults: Generation
    """`temperature`, `top_k`, `top_p` and `min_p` for requests that do not say."""
    default_chat_template_kwargs: Mapping[str, Any]
    """What the checkpoint wants its template told when the request says nothing, such as `enable_thinking`."""
    calibration: Table | None = None
    """What the width starts from, read from a file; None where it measures first."""
    warnings: tuple[str, ...] = ()
    """What is doubtful about the pair, each a whole sentence that says what to do; logged as it was loaded."""

    @property
    def left(self) -> int:
        """Bytes for conversations and what is kept of them: neither the weights' nor those of a pass."""
        return max(0, self.memory.size - self.footprint.weights - self.footprint.workspace)

    def session_bytes(self, tokens: int) -> int:
        """The most that the caches of one conversation of so many tokens take, alone."""
        return self.footprint.session(tokens)

    def beside_bytes(self, tokens: int) -> int:
        """The same of one among several."""
        return self.footprint.beside(tokens)

    def batch(
        self, *, prefill_chunk: int = 512, prefix: PrefixStore | None = None, learned: Table | None = None
    ) -> Batch:
        """An empty batch over these networks, which resumes from what is kept in `prefix` and leaves more there.

        Its width starts from what another batch `learned`; without that, from the calibration.
        """
        return Batch(
            self.target,
            self.speculator,
            prefix=prefix,
            learned=self.calibration if learned is None else learned,
            prefill_chunk=prefill_chunk,
            speculation_off=self.speculation_off or "",
        )


def load_runtime(model: str | None = None, speculator: str = "auto", loading: Loading = DEFAULTS) -> Runtime:
    """Load a checkpoint and the speculator that goes with it; call it on the thread that will run and free them.

    Args:
        model: a folder, a hub id, or None for the pair that comes with the project.
        speculator: a folder or hub id; "none"; "auto" for the one in the checkpoint's folder `speculator`, else in a
            folder beside it of the partner's name, else the one published for it in the target's precision, if any.
        loading: how, where there is a choice.

    Raises:
        CheckpointError: one of the two cannot be found, fetched or read, they do not belong together, or do not fit.
        ConfigError, TokenizerError, TemplateError, CalibrationError: one of these files cannot be honoured.
    """
    name, folder = _target_folder(model, loading)
    generation = read_generation(folder)
    tokenizer = Tokenizer.load(folder, eos_ids=generation.eos_ids)
    choice = choose(speculator, hub_name(name), folder, partial(find_checkpoint, report=loading.report))
    target, limit = _prepared(name, folder, tokenizer, loading), memory_limit(loading.memory_limit)
    fits = partial(_fits, _model_id(name, folder), limit, saving(read_packing(folder), loading.fp8_bits), target)
    drafter, choice, need = _drafter(choice, target, tokenizer, loading, fits)
    learned = _calibration(loading, _model_id(name, folder), choice.name)
    read_weights(folder, target, loading.report)
    grammars, ungrammatical = _grammars(folder, target.vocab_size, tokenizer)
    return Runtime(
        model_id=_model_id(name, folder),
        target=target,
        speculator=drafter,
        speculator_id=choice.name,
        speculation_off=choice.why_none,
        tokenizer=tokenizer,
        grammars=grammars,
        context_length=target.config.max_position_embeddings,
        calibration=learned,
        fingerprint=_fingerprint(folder, choice, loading),
        footprint=need,
        memory=limit,
        sampling_defaults=generation,
        default_chat_template_kwargs=generation.chat_template_kwargs,
        warnings=_said(*attention_factor_warnings(target.config), *choice.warnings, *ungrammatical),
    )


def _grammars(folder: Path, vocab_size: int, tokenizer: Tokenizer) -> tuple[Grammars | None, tuple[str, ...]]:
    """What compiles grammars; without it everything but forced calls and JSON answers still works."""
    try:
        return Grammars((folder / "tokenizer.json").read_text("utf-8"), vocab_size, tokenizer.eos_ids), ()
    except GrammarError as error:
        return None, (f"forced calls and JSON answers are not to be had: {error}",)


def _fingerprint(folder: Path, choice: Choice, loading: Loading) -> str:
    """Rows of one pair must never be read by another; MLX's own arithmetic changes with its version."""
    ways = loading.attention_factor, loading.speculator_bits, loading.fp8_bits, loading.kv_bits
    folders = [folder] if choice.folder is None else [folder, choice.folder]
    try:
        return fingerprint(folders, [run_dtype(), version("mlx"), mx.default_device(), *ways])
    except OSError as error:
        raise CheckpointError(f"{error.filename} cannot be read: {error.strerror}") from error


def _target_folder(model: str | None, loading: Loading) -> tuple[str, Path]:
    name = EMBEDDED if model is None else model
    folder = find_checkpoint(name, loading.revision, report=loading.report)
    if is_speculator(folder):
        raise CheckpointError(f"{name} is a speculator: name its target with --model and this one with --speculator")
    return name, folder


def _prepared(name: str, folder: Path, tokenizer: Tokenizer, loading: Loading) -> Laguna:
    target = prepare_target(folder, loading=loading)
    if tokenizer.vocab_size > target.vocab_size:
        raise CheckpointError(f"{name}: {tokenizer.vocab_size} tokens, but the network knows only {target.vocab_size}")
    return target


def _said(*warnings: str) -> tuple[str, ...]:
    """The warnings, logged."""
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def _fits(name: str, limit: Limit, smaller: str, target: Laguna, drafter: DFlashLaguna | None) -> Footprint:
    """What the two take, once it is known to be there."""
    need = weigh(target, drafter, run_dtype())
    check_memory(name, need, limit, target.config.max_position_embeddings, smaller)
    log.info("%s of weights in %s of memory (%s)", gib(need.weights), gib(limit.size), limit.source)
    return need


def _drafter(
    choice: Choice,
    target: Laguna,
    tokenizer: Tokenizer,
    loading: Loading,
    fits: Callable[[DFlashLaguna | None], Footprint],
) -> tuple[DFlashLaguna | None, Choice, Footprint]:
    """The speculator, loaded, and what the pair takes.

    Where nobody asked for it and it will not do, or does not fit, there is none, and the choice says why.
    """
    if choice.folder is None:
        return _alone(choice, fits)
    try:
        drafter = prepare_speculator(choice.folder, target, loading=loading)
        need = fits(drafter)
        read_weights(choice.folder, drafter, loading.report)
    except CheckpointError as error:
        if not choice.guessed:
            raise
        return _alone(choice.failed(error), fits)
    mask = mask_warnings(drafter.config, tokenizer.token_id(MASK))
    packing = quantising_warnings(drafter, loading.speculator_bits)
    return drafter, replace(choice, warnings=choice.warnings + mask + packing), need


def _alone(choice: Choice, fits: Callable[[None], Footprint]) -> tuple[None, Choice, Footprint]:
    """The target without a speculator; the log says what is wrong with one that was to be had."""
    if choice.trouble:
        log.warning("%s", choice.trouble)
    return None, choice, fits(None)


def _calibration(loading: Loading, target: str, speculator: str | None) -> Table | None:
    path = loading.calibration
    return None if path is None else read_calibration(path, Measured.here(target, speculator, loading))


def _model_id(name: str, folder: Path) -> str:
    """What clients call the model: a hub id as it is, a folder by its own name."""
    return folder.resolve().name if name != EMBEDDED and Path(name).expanduser().exists() else name
