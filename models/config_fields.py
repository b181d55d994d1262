"""Reading a `config.json` field by field: types, ranges, and the spellings that published checkpoints use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log
from typing import Any, Literal, Never, TypeVar

Kind = Literal["full_attention", "sliding_attention"]
Choice = TypeVar("Choice")

LARGEST = 2**31 - 1
"""The largest integer that an array may have as a dimension; no field of these files means a larger one."""


class ConfigError(ValueError):
    """A field of a checkpoint's configuration that will not do."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        super().__init__(f"{field} is {value!r}; it must be {wanted}")
        self.field = field
        self.value = value
        self.wanted = wanted


@dataclass(frozen=True)
class RopeConfig:
    """Rotary positions of one layer: the first `dims` of a head turn (rotate-half), the rest pass through.

    `factor`, `original_length`, `beta_fast` and `beta_slow` are YaRN's (`factor` also linear's). `attention_factor` is
    what the file says; it counts only `as_stated`, else 0.1 ln(factor) + 1, as in the serving stacks of these models.
    """

    kind: Literal["default", "linear", "yarn"]
    theta: float
    dims: int
    factor: float = 1.0
    original_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    as_stated: bool = False

    @property
    def applied_factor(self) -> float:
        """The scale of rotated queries and keys that the network uses."""
        stated = self.attention_factor if self.as_stated else None
        return self.derived_factor if stated is None else stated

    @property
    def derived_factor(self) -> float:
        """YaRN's scale of rotated queries and keys, 0.1 ln(factor) + 1; 1 for other kinds."""
        return 0.1 * log(self.factor) + 1.0 if self.kind == "yarn" else 1.0


@dataclass(frozen=True)
class Fields:
    """A parsed object and the name that errors give it."""

    owner: str
    raw: Mapping[str, Any]

    def refuse(self, name: str, wanted: str) -> Never:
        """Raise the error that names field, value and what would do."""
        raise ConfigError(f"{self.owner}: {name}", self.raw.get(name, "missing"), wanted)

    def inside(self, name: str) -> "Fields":
        """The object under `name`."""
        value = self.raw.get(name)
        if not isinstance(value, Mapping):
            self.refuse(name, "an object")
        return Fields(f"{self.owner}: {name}", value)

    def get(self, name: str, default: object = None) -> object:
        """The value; an explicit null counts as missing."""
        value = self.raw.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer of at least `least`."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.refuse(name, f"an integer of at least {least}")
        if value > LARGEST:
            self.refuse(name, f"an integer of at most {LARGEST}")
        return value

    def number(
        self, name: str, default: float | None = None, *, least: float | None = None, most: float = float(LARGEST)
    ) -> float:
        """A finite number up to `most`, above 0 unless `least` says where it may start."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(name, "a number")
        if value < least if least is not None else value <= 0:
            self.refuse(name, f"a number of at least {least}" if least is not None else "a number above 0")
        if value > most or not isfinite(value):
            self.refuse(name, f"a finite number of at most {most:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def one_of(self, name: str, choices: Mapping[Any, Choice], *, default: object) -> Choice:
        """What the chosen spelling means."""
        value = self.get(name, default)
        for spelled, meaning in choices.items():
            if value == spelled and isinstance(value, bool) == isinstance(spelled, bool):
                return meaning
        self.refuse(name, "one of " + ", ".join(repr(choice) for choice in choices))

    def integers(
        self, name: str, length: int | None = None, *, default: int | tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """A list of integers, of `length` where given; a single default stands for all of them."""
        value = self.get(name)
        if value is None and default is not None:
            return (default,) * (length or 1) if isinstance(default, int) else default
        if not isinstance(value, Sequence) or any(isinstance(v, bool) or not isinstance(v, int) for v in value):
            self.refuse(name, "a list of integers")
        if any(abs(v) > LARGEST for v in value):
            self.refuse(name, f"a list of integers of at most {LARGEST}")
        if length is not None and len(value) != length:
            self.refuse(name, f"a list of {length} integers, one a layer")
        return tuple(value)

    def architecture(self, wanted: str, model_type: str | None = None) -> None:
        """Check `architectures`; where there is none, `model_type` will do for a target.

        A speculator has the model_type of its target, so of that it says nothing.
        """
        value = self.get("architectures")
        if value is None and model_type is not None and self.get("model_type") == model_type:
            return
        if isinstance(value, str) or not isinstance(value, Sequence) or wanted not in value:
            self.refuse("architectures", f"a list with {wanted!r}")

    def activation(self) -> None:
        """Check `hidden_act`: the feed-forwards of these networks have one."""
        self.one_of("hidden_act", {"silu": True, "swish": True}, default="silu")


def layer_kinds(fields: Fields, layers: int, default: Kind = "full_attention") -> tuple[Kind, ...]:
    """Each layer's `layer_types` entry."""
    listed = fields.get("layer_types", [default] * layers)
    kinds: dict[str, Kind] = {"full_attention": "full_attention", "sliding_attention": "sliding_attention"}
    if not isinstance(listed, Sequence) or any(not isinstance(kind, str) or kind not in kinds for kind in listed):
        fields.refuse("layer_types", "a list of 'full_attention' and 'sliding_attention'")
    if len(listed) != layers:
        fields.refuse("layer_types", f"a list of {layers} entries, one a layer")
    return tuple(kinds[kind] for kind in listed)


def sparse_layers(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Which layers have experts: `mlp_layer_types`, else `mlp_only_layers` with `decoder_sparse_step`."""
    if fields.get("num_experts", 0) == 0:
        return (False,) * layers
    listed = fields.get("mlp_layer_types")
    if listed is not None:
        if (
            not isinstance(listed, Sequence)
            or len(listed) != layers
            or any(k not in ("dense", "sparse") for k in listed)
        ):
            fields.refuse("mlp_layer_types", f"a list of {layers} entries, each 'dense' or 'sparse'")
        return tuple(kind == "sparse" for kind in listed)
    dense = set(fields.integers("mlp_only_layers", default=(0,)))
    step = fields.integer("decoder_sparse_step", 1)
    return tuple(index not in dense and (index + 1) % step == 0 for index in range(layers))


def layer_ropes(fields: Fields, head_dim: int, kinds: frozenset[Kind]) -> dict[Kind, RopeConfig]:
    """The positions of each kind of layer, from whichever of the published spellings the file uses."""
    return {kind: rope(rope_fields(fields, kind), head_dim) for kind in sorted(kinds)}


def rope_fields(fields: Fields, kind: Kind) -> Fields:
    """One flat object for `kind`: nested first, then flat `rope_parameters` or `rope_scaling`, then the top level."""
    whole = fields.get("rope_parameters", {})
    if not isinstance(whole, Mapping):
        fields.refuse("rope_parameters", "an object")
    nested = whole.get(kind)
    shared = {key: value for key, value in whole.items() if not isinstance(value, Mapping)}
    top = {key: fields.raw[key] for key in ("rope_theta", "partial_rotary_factor") if fields.get(key) is not None}
    owner = f"{fields.owner}: rope of {kind}"
    if isinstance(nested, Mapping):
        # One published file keeps only this length beside the nested objects, and one repeats it at the top.
        length = {"original_max_position_embeddings": fields.get("original_max_position_embeddings")}
        return Fields(owner, {**length, **top, **shared, **nested})
    if kind == "sliding_attention" and fields.get("swa_rope_parameters") is not None:
        return Fields(owner, dict(fields.inside("swa_rope_parameters").raw))
    scaling = {} if fields.get("rope_scaling") is None else dict(fields.inside("rope_scaling").raw)
    if not (shared or scaling or "rope_theta" in top):
        fields.refuse("rope_parameters", f"an object with {kind!r} in it, or a flat one, or rope_theta beside it")
    return Fields(owner, {**top, **scaling, **shared})


def rope(fields: Fields, head_dim: int) -> RopeConfig:
    """One layer kind's positions, checked.

    Raises:
        ConfigError: an unknown rope_type, an odd rotated part, or YaRN without its lengths.
    """
    kinds: dict[Any, Literal["default", "linear", "yarn"]] = {kind: kind for kind in ("default", "linear", "yarn")}
    kind = fields.one_of("rope_type", kinds, default=fields.get("type", "default"))
    dims = int(head_dim * fields.number("partial_rotary_factor", 1.0))
    if dims < 2 or dims % 2 or dims > head_dim:
        fields.refuse("partial_rotary_factor", f"a share of head_dim ({head_dim}) that is an even number of dimensions")
    plain = RopeConfig(kind=kind, theta=fields.number("rope_theta"), dims=dims)
    if kind == "default":
        return plain
    if kind == "linear":
        return replace(plain, factor=fields.number("factor", 1.0))
    stated = fields.get("attention_factor")
    return replace(
        plain,
        factor=fields.number("factor", least=1.0),
        original_length=fields.integer("original_max_position_embeddings"),
        beta_fast=fields.number("beta_fast", 32.0),
        beta_slow=fields.number("beta_slow", 1.0),
        attention_factor=None if stated is None else fields.number("attention_factor"),
    )
