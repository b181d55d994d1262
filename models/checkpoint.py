"""Finding a checkpoint and loading its network.

The loader is mlx-lm's `load_model` with our classes: strict names, quantisation read off the tensors.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import load_model

from models.compressed import relaid, widths, without_unread
from models.config import SpeculatorConfig, TargetConfig
from models.config_fields import ConfigError
from models.dflash_laguna import DFlashLaguna
from models.errors import CheckpointError, UnknownCheckpointError
from models.hub import cached, fetch, is_hub_id
from models.laguna import Laguna
from models.loading import DEFAULTS, Loading, with_attention_factor, with_kv_bits
from models.naming import named
from models.packing import compressed, loader_settings, read_packing
from models.pairing import check_pair, read_speculator
from models.progress import Report, unreported
from models.quantising import quantise
from models.scaled import divisors, wrap
from models.settling import cast_parameters, check_kinds, evaluate, make_ready
from models.shards import check_files, check_tensors

Network = TypeVar("Network", bound=nn.Module)

EMBEDDED = "laguna-tiny"
"""The name of the pair that comes with the package."""

SHOWN = 4
"""Names of tensors that an error lists."""

SPECULATOR = "speculator config"
"""What errors call its `config.json`."""


def embedded_path() -> Path:
    """The folder of the pair that comes with the package; its speculator lies in `speculator/`."""
    return Path(str(files("models").joinpath("tiny")))


def find_checkpoint(name: str, revision: str | None = None, *, report: Report = unreported) -> Path:
    """The folder of a checkpoint: `laguna-tiny`, a path, or a hub id (fetched once, then read from its cache).

    Args:
        name: which one.
        revision: a branch, tag or commit of a hub id.
        report: told how far the download is.

    Raises:
        CheckpointError: none of these, or a revision of what has none; `models.hub.fetch` names the hub's reasons.
        DamagedFile: a file of it is missing, cut short or no JSON.
    """
    path = _folder(name, revision)
    if path is not None:
        check_files(_with_config(path))
        return path
    return _with_config(fetch(name, revision, report=report))


def locate_checkpoint(name: str, revision: str | None = None) -> Path:
    """The folder of a checkpoint as `find_checkpoint` knows it, whole or not, without fetching anything.

    Raises:
        CheckpointError: it is not on this machine.
    """
    return _with_config(_folder(name, revision) or cached(name, revision))


def _folder(name: str, revision: str | None) -> Path | None:
    """A folder that is there; None for a hub id.

    Raises:
        CheckpointError: neither, or a revision of a folder.
    """
    try:
        path = embedded_path() if name == EMBEDDED else Path(name).expanduser()
        found = path.exists()
    # A home that nobody has is a RuntimeError.
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"no checkpoint {name!r}: {error}") from error
    if found:
        if revision is not None:
            raise CheckpointError(f"revision {revision!r}: only a hub id has revisions, and {name!r} is a folder here")
        return path
    if not is_hub_id(name):
        raise UnknownCheckpointError(
            f"no checkpoint {name!r}: give {EMBEDDED!r}, an existing folder, or a hub id owner/name"
        )
    return None


def run_dtype() -> mx.Dtype:
    """float32 on the CPU, where narrower kernels are wrong or missing; bfloat16 on a GPU, never float16."""
    return mx.float32 if mx.default_device() == mx.Device(mx.cpu) else mx.bfloat16


def load_target(folder: Path, dtype: mx.Dtype | None = None, loading: Loading = DEFAULTS) -> Laguna:
    """Load a target, evaluated whole, so that another thread may run it.

    Args:
        folder: `config.json` and `model*.safetensors`: plain, in MLX's packing, or in compressed-tensors.
        dtype: of the parameters; None: `run_dtype()`.
        loading: how, where there is a choice.

    Raises:
        ConfigError: a field of the configuration that will not do.
        CheckpointError: weights that are missing, too many or of other shapes.
    """
    model = prepare_target(folder, dtype, loading)
    read_weights(folder, model, loading.report)
    return model


def prepare_target(folder: Path, dtype: mx.Dtype | None = None, loading: Loading = DEFAULTS) -> Laguna:
    """A target in the form in which it will run, none of its weights read yet; raises what `load_target` does."""
    with _refusals(folder):
        model = open_target(folder, loading)
        make_ready(model, dtype or run_dtype())
    return model


def open_target(folder: Path, loading: Loading = DEFAULTS) -> Laguna:
    """The network of a target with its tensors named, shaped and packed as they will run, none of them read yet.

    Raises:
        ConfigError: a field of the configuration that will not do.
        ValueError: weights that are missing, too many or of other shapes.
    """
    config = with_attention_factor(TargetConfig.from_path(folder), loading.attention_factor)
    config = with_kv_bits(config, loading.kv_bits)
    raw = read_packing(folder)
    container = compressed(raw)

    class Published(Laguna):
        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            weights = divisors(named(without_unread(weights)))
            if container is not None:
                weights = relaid(weights, container, widths(self), loading.fp8_bits)
            return wrap(self, super().sanitize(weights))

    return _opened(folder, Published, config, loader_settings(raw))


def load_speculator(
    folder: Path, target: Laguna, dtype: mx.Dtype | None = None, loading: Loading = DEFAULTS
) -> DFlashLaguna:
    """Load a speculator that borrows the embedding and the head of `target`, evaluated whole.

    Raises:
        ConfigError: a field of the configuration that will not do.
        PairError: the two do not belong together.
        CheckpointError: weights that are missing, too many or of other shapes.
    """
    model = prepare_speculator(folder, target, dtype, loading)
    read_weights(folder, model, loading.report)
    return model


def prepare_speculator(
    folder: Path, target: Laguna, dtype: mx.Dtype | None = None, loading: Loading = DEFAULTS
) -> DFlashLaguna:
    """A speculator in the form in which it will run, none of its weights read yet; raises what its loading does."""
    check_pair(target.config, read_speculator(folder))
    with _refusals(folder):
        model = open_speculator(folder, target)
        if loading.speculator_bits is not None:
            cast_parameters(model, dtype or run_dtype())
            quantise(model, loading.speculator_bits)
        make_ready(model, dtype or run_dtype())
    return model


def read_weights(folder: Path, model: nn.Module, report: Report = unreported) -> None:
    """Read and unpack what was prepared.

    Raises:
        CheckpointError: a file that cannot be read, or no memory for what it holds.
    """
    with _refusals(folder):
        evaluate(model, report)


def open_speculator(folder: Path, target: Laguna) -> DFlashLaguna:
    """The network of a speculator with its tensors named, shaped and packed as they will run, none of them read yet.

    Raises:
        ConfigError: a field of the configuration that will not do.
        ValueError: weights that are missing, too many or of other shapes.
    """
    raw = read_packing(folder)
    container = compressed(raw, SPECULATOR)

    class Borrowing(DFlashLaguna):
        def __init__(self, config: SpeculatorConfig) -> None:
            super().__init__(config, embed=target.embed, head=target.head)

        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            weights = divisors(without_unread(weights))
            if container is not None:
                weights = relaid(weights, container, widths(self) | self.fused_widths())
            return wrap(self, super().sanitize(weights))

    return _opened(folder, Borrowing, read_speculator(folder), loader_settings(raw, SPECULATOR))


def _with_config(folder: Path) -> Path:
    try:
        found = (folder / "config.json").is_file()
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error
    if not found:
        raise CheckpointError(f"{folder} is not a checkpoint: it has no config.json")
    return folder


def _opened(
    folder: Path, network: type[Network], checked: TargetConfig | SpeculatorConfig, extra: dict[str, Any]
) -> Network:
    """mlx-lm's loader with our classes: strict names and shapes, every array still lazy."""

    class Read:
        @staticmethod
        def from_dict(_: Mapping[str, Any]) -> TargetConfig | SpeculatorConfig:
            """The configuration as it was checked before; the loader would read it a second time."""
            return checked

    check_tensors(folder)
    with _refusals(folder):
        model, _ = load_model(folder, lazy=True, model_config=extra, get_model_classes=lambda config: (network, Read))
        assert isinstance(model, network)
        check_kinds(model)
    return model


@contextmanager
def _refusals(folder: Path) -> Generator[None]:
    """What goes wrong with a checkpoint's weights, said with its folder."""
    try:
        yield
    except (ConfigError, CheckpointError):
        raise
    # MLX raises a bare RuntimeError for a file cut short, some of them only when its arrays are evaluated.
    except (ValueError, OSError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{folder} cannot be loaded: {_shortened(str(error))}") from error


def _shortened(said: str) -> str:
    """One line of what may be a list of every tensor."""
    first, *others = (line.strip() for line in said.splitlines() if line.strip())
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return " ".join([first, *others[:SHOWN]]) + more
