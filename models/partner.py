"""Which published speculator goes with which target, told from their names and from how the target is packed.

A speculator is trained on the states of one precision of its target: `-DFlash-INT4` is other weights than `-DFlash`,
not a smaller copy of them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from models.packing import compressed

Precision = Literal["bf16", "FP8", "NVFP4", "INT4"]

_SUFFIXES: tuple[Precision, ...] = ("FP8", "NVFP4", "INT4")
_FAMILIES = ("Laguna-XS-2.1", "Laguna-S-2.1", "Laguna-XS.2", "Laguna-M.1")
_WITHOUT: dict[str, str] = {
    "Laguna-XS.2": "the speculator published for Laguna-XS.2 is of another architecture, which does not run here",
    "Laguna-M.1": "no speculator was published for Laguna-M.1",
}
_OWNER = "poolside"
_SPECULATOR = "-DFlash"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_CACHED = re.compile(r"models--([^/\\]+?)--([^/\\]+)")
_BASE_MODEL = re.compile(r"^base_model:\s*(?:-\s*)?[\"']?([\w.-]+/[\w.-]+)", re.MULTILINE)
_REJECTED = "nearly all drafts may be rejected, which costs time and changes no text"


@dataclass(frozen=True)
class Identity:
    """What a checkpoint says it is.

    Attributes:
        name: `owner/name` on the hub, a bare name, or None.
        precision: which published weights these are; of a speculator, which it was trained for; None: another packing
            of a target, nothing known of a speculator.
        rotated: the residual stream is a rotation of the original one, and so is what a speculator would read.
    """

    name: str | None
    precision: Precision | None
    rotated: bool = False

    @property
    def family(self) -> str | None:
        """The published model, without precision and owner."""
        return None if self.name is None else family(self.name)


@dataclass(frozen=True)
class Proposal:
    """The hub id of the speculator that goes with a target, or why there is none."""

    name: str | None
    why_none: str | None = None


def family(name: str) -> str | None:
    """The published model that a name begins with, in its published spelling."""
    bare = name.rpartition("/")[2].casefold()
    found = (known for known in _FAMILIES if re.match(re.escape(known.casefold()) + r"(?![\w.])", bare))
    return next(found, None)


def named_precision(name: str) -> Precision | None:
    """The precision that a name has among its parts."""
    parts = {part.upper() for part in name.rpartition("/")[2].split("-")}
    return next((suffix for suffix in _SUFFIXES if suffix in parts), None)


def packed_precision(raw: Mapping[str, Any]) -> Precision | None:
    """The published precision that a parsed `config.json` describes; None for packings that were not published.

    Raises:
        ConfigError: a packing that does not load.
    """
    mlx = raw.get("quantization") or {}
    if isinstance(mlx, Mapping) and mlx:
        return "NVFP4" if mlx.get("mode") == "nvfp4" else None
    container = compressed(raw)
    if container is None:
        return "bf16" if raw.get("quantization_config") is None else None
    formats = {scheme.format for scheme in container.schemes}
    kinds: dict[str, Precision] = {
        "nvfp4-pack-quantized": "NVFP4",
        "float-quantized": "FP8",
        "pack-quantized": "INT4",
    }
    return kinds[formats.pop()] if len(formats) == 1 else None


def names(given: str, path: PurePath, raw: Mapping[str, Any], readme: str) -> Iterator[str]:
    """What a checkpoint may be called, the surest first.

    Args:
        given: the name that the user gave; of a folder, nothing.
        path: its folder; the hub's cache writes the id into it.
        raw: its parsed `config.json`.
        readme: the text of its model card.
    """
    if given:
        yield given
    for part in reversed(path.parts):
        if found := _CACHED.fullmatch(part):
            yield f"{found[1]}/{found[2]}"
    yield path.name
    if isinstance(stated := raw.get("_name_or_path"), str) and stated:
        # A path on the machine of whoever trained it says nothing here but its end.
        yield stated if _HUB_ID.fullmatch(stated) else PurePath(stated).name
    if found := _BASE_MODEL.search(readme):
        yield found[1]


def target_identity(given: str, path: PurePath, raw: Mapping[str, Any], readme: str = "") -> Identity:
    """What a target is; arguments as of `names`.

    Raises:
        ConfigError: a packing that does not load.
    """
    called = [given] if given else [name for name in names(given, path, raw, readme) if family(name)]
    container = compressed(raw)
    precision = named_precision(called[0]) if called else None
    return Identity(
        name=called[0] if called else None,
        precision=precision or packed_precision(raw),
        rotated=container is not None and container.rotated,
    )


def speculator_identity(given: str, path: PurePath, raw: Mapping[str, Any], readme: str = "") -> Identity:
    """What a speculator is, and the precision it was trained for: by its own name, else by that of its base model."""
    called = list(names(given, path, raw, readme))
    own = next((name for name in called if _SPECULATOR.casefold() in name.casefold()), None)
    if own is None and family(called[-1]) is not None:
        own = called[-1]
    plain: Precision | None = "bf16" if own is not None and family(own) is not None else None
    return Identity(own, named_precision(own or "") or plain)


def partner(target: Identity) -> Proposal:
    """The speculator published for a target, in the precision that matches."""
    if target.name is None:
        return Proposal(None, "the checkpoint has no speculator beside it and does not say which published model it is")
    if target.family in _WITHOUT:
        return Proposal(None, _WITHOUT[target.family])
    suffix = "" if target.precision in (None, "bf16") else f"-{target.precision}"
    if target.family is not None:
        return Proposal(f"{_OWNER}/{target.family}{_SPECULATOR}{suffix}")
    named = named_precision(target.name)
    stem = re.split(rf"-{named}(?=-|$)", target.name, flags=re.IGNORECASE)[0] if named else target.name
    return Proposal(f"{stem}{_SPECULATOR}" + (f"-{named}" if named else ""))


def sibling(folder: str, target: Identity, others: Collection[str]) -> str | None:
    """The name of the folder beside a target's that holds its speculator by its name, in the precision that matches."""
    published = (partner(target).name or "").rpartition("/")[2]
    wanted = named_precision(published)
    if published in others:
        return published
    beginning = f"{folder}{_SPECULATOR}".casefold()
    fitting = [n for n in others if n.casefold().startswith(beginning) and named_precision(n) == wanted]
    return min(fitting, key=lambda name: (len(name), name), default=None)


def name_warnings(target: Identity, speculator: Identity) -> tuple[str, ...]:
    """What the two names and the target's packing make doubtful about a pair whose shapes fit."""
    found: list[str] = []
    spoken = f"The speculator {speculator.name or 'given'}"
    if None not in (target.family, speculator.family) and target.family != speculator.family:
        found.append(f"{spoken} was trained for {speculator.family}, and this is {target.family}: {_REJECTED}.")
    advice = f"{partner(target).name} is the one published for this target" if partner(target).name else ""
    advice = advice or "try --speculator none beside it and compare"
    trained, packed = speculator.precision, target.precision
    if target.rotated and trained != packed:
        found.append(
            f"The weights of this target are rotated (R1), so its states are unreadable for a speculator of the plain "
            f"model. {spoken} is not named as one for {packed}: {_REJECTED}; {advice}."
        )
    elif trained is not None and trained != packed and (packed is not None or trained != "bf16"):
        found.append(
            f"{spoken} was trained for {trained} weights, and the target has {packed or 'another packing'}: "
            f"fewer drafts may be accepted; {advice}."
        )
    return tuple(found)
