"""What `config.json` says about packed weights: which container, and which kind of packing each module has.

Two containers load: MLX's own (`quantization`), which mlx-lm reads, and compressed-tensors, whose groups are read here.
Everything else is refused by its name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from models.config import read_json
from models.config_fields import ConfigError, Fields

Format = Literal["pack-quantized", "nvfp4-pack-quantized", "float-quantized"]

_FORMATS: dict[Any, Format] = {
    "pack-quantized": "pack-quantized",
    "nvfp4-pack-quantized": "nvfp4-pack-quantized",
    "float-quantized": "float-quantized",
}
_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
"""MLX's kinds of packing."""
_MIXED = "mixed-precision"
"""What the file says at the top where each group names its own format."""


@dataclass(frozen=True)
class Scheme:
    """One group of modules that are packed alike.

    Attributes:
        format: how the tensors are laid out.
        bits: of one weight.
        group_size: weights that share a scale along the input; 0 where the file does not say.
        block: rows and columns that share a scale (FP8); None for a scale a row or for the whole matrix.
        targets: module names, class names, or regular expressions after `re:`.
        symmetric: whether the middle code stands for zero; else each scale has a zero point.
    """

    format: Format
    bits: int
    group_size: int = 0
    block: tuple[int, int] | None = None
    targets: tuple[str, ...] = ("Linear",)
    symmetric: bool = True


@dataclass(frozen=True)
class Compressed:
    """A compressed-tensors checkpoint: `ignore` wins over the groups, and the first group that matches counts.

    `rotated` says that the residual stream is a rotation of the original one, so tapped states are rotated too.
    """

    schemes: tuple[Scheme, ...]
    ignore: tuple[str, ...]
    rotated: bool

    def scheme(self, module: str) -> Scheme | None:
        """The group that covers a module (its published name), or None."""
        if any(matches(pattern, module) for pattern in self.ignore):
            return None
        covering = (scheme for scheme in self.schemes if any(matches(target, module) for target in scheme.targets))
        return next(covering, None)

    @property
    def has_fp8(self) -> bool:
        """Whether some modules are 8-bit floats, which take twice the memory once they are multiplied out."""
        return any(scheme.format == "float-quantized" for scheme in self.schemes)


def matches(pattern: str, module: str) -> bool:
    """Whether a target names a module: all packed modules are of class Linear, a name may lack its first parts."""
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), module) is not None
    return pattern in ("Linear", module) or module.endswith(f".{pattern}")


def compressed(raw: Mapping[str, Any], owner: str = "target config") -> Compressed | None:
    """Read a parsed `config.json`, called `owner`; None where the weights are plain or in MLX's own packing.

    Raises:
        ConfigError: a container, format or kind of packing that does not load, by name.
    """
    top = Fields(owner, raw)
    if top.get("quantization") is not None:
        return None
    # compressed-tensors wrote its settings under the second name before transformers agreed on the first.
    key = "quantization_config" if top.get("quantization_config") is not None else "compression_config"
    if top.get(key) is None or _is_mlx(top.inside(key)):
        return None
    fields = top.inside(key)
    if (
        fields.get("quant_method", "compressed-tensors" if key == "compression_config" else None)
        != "compressed-tensors"
    ):
        fields.refuse("quant_method", "'compressed-tensors'; or use a checkpoint in MLX's own layout, or in bfloat16")
    _check_dense(fields)
    return Compressed(schemes=_schemes(fields), ignore=_patterns(fields, "ignore"), rotated=_has_baked_rotation(fields))


def read_packing(folder: Path) -> dict[str, Any]:
    """`config.json`, with the file beside it in which some programs say how the weights are packed.

    Raises:
        ConfigError: a file that is missing or no JSON object.
    """
    raw, beside = read_json(folder / "config.json"), folder / "hf_quant_config.json"
    if beside.is_file():
        raw.setdefault("quantization_config", {"quant_method": "modelopt"} | read_json(beside))
    return raw


def loader_settings(raw: Mapping[str, Any], owner: str = "target config") -> dict[str, Any]:
    """What to add to the configuration so that mlx-lm's loader packs layers at all, where it has no `quantization`.

    The loader reads each layer's kind off its shapes; the numbers given here are a default that none uses.
    """
    top, stated = Fields(owner, raw), raw.get("quantization_config")
    if top.get("quantization") is not None:
        _check_mlx(top.inside("quantization"))
        return {}
    if stated is None and raw.get("compression_config") is None:
        return {}
    if stated is not None and _is_mlx(top.inside("quantization_config")):
        _check_mlx(top.inside("quantization_config"))
        return {"quantization": dict(stated)}
    return {"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}


def saving(raw: Mapping[str, Any], fp8_bits: int | None) -> str:
    """The flag with which these weights would take less memory, or nothing; `fp8_bits` as of `Loading`."""
    container = compressed(raw)
    return "--quantize-fp8 8" if container is not None and container.has_fp8 and fp8_bits is None else ""


def _check_mlx(fields: Fields) -> None:
    """The settings that the loader takes from MLX's own; each layer's numbers are read off its tensors."""
    fields.integer("group_size")
    fields.integer("bits")
    fields.one_of("mode", {mode: mode for mode in _MODES}, default="affine")


def _check_dense(fields: Fields) -> None:
    """Weights whose zeros are left out are packed in a way of their own."""
    if fields.get("sparsity_config"):
        sparsity = fields.inside("sparsity_config")
        sparsity.one_of("format", {"dense": True}, default="dense")


def _is_mlx(fields: Fields) -> bool:
    """Whether this is a copy of MLX's own settings, which name no method."""
    return fields.get("quant_method") is None and fields.get("bits") is not None


def _schemes(fields: Fields) -> tuple[Scheme, ...]:
    """Every group with packed weights; without groups, the one that the format meant before there were any."""
    if fields.get("config_groups") is None:
        chosen = _format(fields, None)
        legacy = {"pack-quantized": Scheme(chosen, 4), "nvfp4-pack-quantized": Scheme(chosen, 4, 16)}
        return (legacy.get(chosen, Scheme(chosen, 8, block=(128, 128))),)
    groups = fields.inside("config_groups")
    read = (_scheme(groups.inside(name), fields) for name in groups.raw)
    return tuple(scheme for scheme in read if scheme is not None)


def _scheme(group: Fields, whole: Fields) -> Scheme | None:
    """One group; None where it packs activations only."""
    if group.get("weights") is None:
        return None
    weights, chosen = group.inside("weights"), _format(group, whole)
    symmetric = weights.flag("symmetric", True)
    if not symmetric and chosen != "pack-quantized":
        weights.refuse("symmetric", "true: floats have no zero points")
    if weights.get("actorder") not in (None, False, "static", "weight"):
        weights.refuse("actorder", "null or 'static': columns in another order than the inputs are not read")
    weights.one_of("type", {"int" if chosen == "pack-quantized" else "float": True}, default=None)
    bits = weights.one_of("num_bits", {n: n for n in _bits(chosen)}, default=None)
    size = weights.get("group_size")
    grouped = 0 if size in (None, -1) or chosen == "float-quantized" else weights.integer("group_size")
    if chosen == "nvfp4-pack-quantized" and grouped != 16:
        weights.refuse("group_size", "16: the format has no other")
    block = _block(weights) if chosen == "float-quantized" else None
    return Scheme(chosen, bits, grouped, block, _patterns(group, "targets", ("Linear",)), symmetric)


def _bits(chosen: Format) -> tuple[int, ...]:
    return {"pack-quantized": (4, 8), "nvfp4-pack-quantized": (4,), "float-quantized": (8,)}[chosen]


def _format(fields: Fields, whole: Fields | None) -> Format:
    """A group's own format, or the whole file's."""
    own = fields if fields.get("format") is not None or whole is None else whole
    if own is whole and own.get("format") == _MIXED:
        fields.refuse("format", f"given, since the whole file says {_MIXED!r}")
    return own.one_of("format", _FORMATS, default=None)


def _block(weights: Fields) -> tuple[int, int] | None:
    """`block_structure`, a pair or `"128x128"`; None for a scale a row or for the whole matrix."""
    strategies = {name: name for name in ("block", "channel", "tensor")}
    if weights.one_of("strategy", strategies, default="block") != "block":
        return None
    stated = weights.get("block_structure", [128, 128])
    sizes = [int(part) for part in stated.split("x") if part.isdigit()] if isinstance(stated, str) else stated
    if not isinstance(sizes, Sequence) or len(sizes) != 2 or any(not isinstance(n, int) or n < 1 for n in sizes):
        weights.refuse("block_structure", "two positive integers, rows and columns")
    return sizes[0], sizes[1]


def _patterns(fields: Fields, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A list of names and regular expressions."""
    value = fields.get(name, default)
    if isinstance(value, str) or not isinstance(value, Sequence) or any(not isinstance(item, str) for item in value):
        fields.refuse(name, "a list of strings")
    for item in value:
        try:
            re.compile(item.removeprefix("re:") if item.startswith("re:") else "")
        except re.error as error:
            raise ConfigError(f"{fields.owner}: {name}", item, f"a regular expression ({error})") from error
    return tuple(value)


def _has_baked_rotation(fields: Fields) -> bool:
    """Whether a transform was multiplied into the weights; one that must run beside them is refused.

    Files spell the key of the groups in two ways.
    """
    if fields.get("transform_config") is None:
        return False
    transforms = fields.inside("transform_config")
    places = [
        place
        for key in ("config_groups", "transform_groups")
        if transforms.get(key) is not None
        for name in transforms.inside(key).raw
        for place in _places(transforms.inside(key).inside(name))
    ]
    for place in places:
        if not str(place.get("location")).startswith("weight_"):
            place.refuse("location", "'weight_input' or 'weight_output': transforms of activations do not run here")
    return bool(places)


def _places(transform: Fields) -> list[Fields]:
    """Where one transform applies."""
    applied = transform.get("apply", ())
    if not isinstance(applied, Sequence) or any(not isinstance(place, Mapping) for place in applied):
        transform.refuse("apply", "a list of objects")
    return [Fields(transform.owner, place) for place in applied]
