"""Which speculator goes with a target: names and packings in, one hub id or a reason out."""

import re
from pathlib import PurePosixPath
from typing import Any

import pytest

from models.partner import (
    Identity,
    Precision,
    Proposal,
    family,
    name_warnings,
    named_precision,
    packed_precision,
    partner,
    sibling,
    speculator_identity,
    target_identity,
)

NVFP4_MLX: dict[str, Any] = {"quantization": {"group_size": 16, "bits": 4, "mode": "nvfp4"}}
AFFINE: dict[str, Any] = {"quantization": {"group_size": 64, "bits": 4}}
ROTATION = {"config_groups": {"R1": {"type": "hadamard", "apply": [{"location": "weight_output"}]}}}


def packed(kind: str, **extra: object) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": kind, **extra}}


INT4, FP8, NVFP4 = (packed(kind) for kind in ("pack-quantized", "float-quantized", "nvfp4-pack-quantized"))


@pytest.mark.parametrize(
    ("name", "raw", "wanted"),
    [
        ("poolside/Laguna-XS-2.1", {}, "poolside/Laguna-XS-2.1-DFlash"),
        ("poolside/Laguna-XS-2.1-FP8", FP8, "poolside/Laguna-XS-2.1-DFlash-FP8"),
        ("poolside/Laguna-XS-2.1-NVFP4", NVFP4, "poolside/Laguna-XS-2.1-DFlash-NVFP4"),
        ("poolside/Laguna-XS-2.1-NVFP4-mlx", NVFP4_MLX, "poolside/Laguna-XS-2.1-DFlash-NVFP4"),
        ("poolside/Laguna-XS-2.1-INT4", INT4, "poolside/Laguna-XS-2.1-DFlash-INT4"),
        ("poolside/Laguna-S-2.1", {}, "poolside/Laguna-S-2.1-DFlash"),
        ("poolside/Laguna-S-2.1-INT4", INT4, "poolside/Laguna-S-2.1-DFlash-INT4"),
        ("poolside/Laguna-S-2.1-NVFP4-mlx", NVFP4_MLX, "poolside/Laguna-S-2.1-DFlash-NVFP4"),
        ("mlx-community/Laguna-S-2.1-oQ3e", AFFINE, "poolside/Laguna-S-2.1-DFlash"),
        ("pipenetwork/laguna-xs-2.1-MLX-4bit", AFFINE, "poolside/Laguna-XS-2.1-DFlash"),
        ("someone/Laguna-XS-2.1-renamed", FP8, "poolside/Laguna-XS-2.1-DFlash-FP8"),
        ("someone/Laguna-L-3", {}, "someone/Laguna-L-3-DFlash"),
        ("someone/Laguna-L-3-NVFP4-mlx", NVFP4_MLX, "someone/Laguna-L-3-DFlash-NVFP4"),
    ],
)
def test_the_published_partner_has_the_targets_precision(name: str, raw: dict[str, Any], wanted: str) -> None:
    target = target_identity(name, PurePosixPath("/cache/snapshots/1"), raw)
    assert partner(target) == Proposal(wanted)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("poolside/Laguna-XS.2", "another architecture"),
        ("poolside/Laguna-XS.2-INT4", "another architecture"),
        ("poolside/Laguna-M.1-FP8", "no speculator was published for Laguna-M.1"),
        ("", "does not say which published model it is"),
    ],
)
def test_where_no_partner_runs_the_reason_is_told(name: str, why: str) -> None:
    proposal = partner(target_identity(name, PurePosixPath("/models/mine"), {}))
    assert proposal.name is None
    assert why in (proposal.why_none or "")


@pytest.mark.parametrize(
    ("path", "raw", "readme", "wanted"),
    [
        ("/hub/models--poolside--Laguna-XS-2.1-FP8/snapshots/0a1b", {}, "", "poolside/Laguna-XS-2.1-FP8"),
        ("/models/Laguna-S-2.1-NVFP4", {}, "", "Laguna-S-2.1-NVFP4"),
        ("/models/mine", {"_name_or_path": "poolside/Laguna-XS-2.1"}, "", "poolside/Laguna-XS-2.1"),
        ("/models/mine", {}, "---\nbase_model: poolside/Laguna-S-2.1\n---\n", "poolside/Laguna-S-2.1"),
        ("/models/mine", {}, "---\nbase_model:\n- poolside/Laguna-S-2.1\n---\n", "poolside/Laguna-S-2.1"),
        ("/models/mine", {"_name_or_path": "/tmp/mine"}, "# no card", None),
    ],
)
def test_a_folder_is_known_by_its_path_its_config_or_its_card(
    path: str, raw: dict[str, Any], readme: str, wanted: str | None
) -> None:
    assert target_identity("", PurePosixPath(path), raw, readme).name == wanted


@pytest.mark.parametrize(
    ("raw", "precision"),
    [
        ({}, "bf16"),
        (NVFP4_MLX, "NVFP4"),
        (AFFINE, None),
        ({"quantization_config": {"group_size": 64, "bits": 4}}, None),
        (INT4, "INT4"),
        (FP8, "FP8"),
        (NVFP4, "NVFP4"),
    ],
)
def test_a_packing_tells_the_published_precision(raw: dict[str, Any], precision: Precision | None) -> None:
    assert packed_precision(raw) == precision


def test_names_are_read_by_their_parts() -> None:
    assert named_precision("poolside/Laguna-XS-2.1-DFlash-INT4-MLX") == "INT4"
    assert named_precision("int4s/Laguna-NVFP40") is None
    assert family("a/laguna-xs-2.1-oQ4e") == "Laguna-XS-2.1"
    assert family("a/Laguna-XS.21") is None
    assert family("a/Laguna-XS-2.15") is None


@pytest.mark.parametrize(
    ("precision", "others", "wanted"),
    [
        ("bf16", {"Laguna-XS-2.1-DFlash", "Laguna-XS-2.1-DFlash-INT4"}, "Laguna-XS-2.1-DFlash"),
        ("INT4", {"Laguna-XS-2.1-DFlash", "Laguna-XS-2.1-DFlash-INT4"}, "Laguna-XS-2.1-DFlash-INT4"),
        ("INT4", {"Laguna-XS-2.1-DFlash"}, None),
        ("bf16", {"mine-DFlash-affine", "mine"}, "mine-DFlash-affine"),
        ("bf16", {"mine-DFlash-INT4", "mine"}, None),
        (None, {"Laguna-XS-2.1-DFlash"}, "Laguna-XS-2.1-DFlash"),
    ],
)
def test_a_speculator_in_a_folder_beside_is_known_by_its_name(
    precision: Precision | None, others: set[str], wanted: str | None
) -> None:
    assert sibling("mine", Identity("Laguna-XS-2.1", precision), others) == wanted


def test_an_unknown_folder_has_the_sibling_of_its_own_name() -> None:
    assert sibling("mine", Identity(None, "bf16"), {"mine-dflash", "yours-DFlash"}) == "mine-dflash"
    assert sibling("mine", Identity(None, "INT4"), {"mine-DFlash", "theirs"}) == "mine-DFlash"


@pytest.mark.parametrize(
    ("given", "path", "readme", "precision"),
    [
        ("poolside/Laguna-XS-2.1-DFlash-NVFP4", "/cache/1", "", "NVFP4"),
        ("", "/models/Laguna-XS-2.1-DFlash", "", "bf16"),
        ("", "/models/speculator", "---\nbase_model:\n- poolside/Laguna-XS-2.1-FP8\n---", "FP8"),
        ("", "/models/speculator", "", None),
    ],
)
def test_what_a_speculator_was_trained_for_is_told_by_its_name_or_its_card(
    given: str, path: str, readme: str, precision: Precision | None
) -> None:
    assert speculator_identity(given, PurePosixPath(path), {}, readme).precision == precision


def warned(target: str, raw: dict[str, Any], speculator: str) -> tuple[str, ...]:
    at = PurePosixPath("/cache/1")
    return name_warnings(target_identity(target, at, raw), speculator_identity(speculator, at, {}))


@pytest.mark.parametrize(
    ("target", "raw", "speculator", "told"),
    [
        ("p/Laguna-XS-2.1-INT4", INT4, "p/Laguna-XS-2.1-DFlash-INT4", None),
        ("p/Laguna-XS-2.1-NVFP4-mlx", NVFP4_MLX, "p/Laguna-XS-2.1-DFlash-NVFP4", None),
        ("p/Laguna-XS-2.1-oQ4e", AFFINE, "p/Laguna-XS-2.1-DFlash", None),
        ("p/Laguna-XS-2.1", {}, "p/mine", None),
        ("p/Laguna-XS-2.1-INT4", INT4, "p/Laguna-XS-2.1-DFlash-NVFP4", "trained for NVFP4 weights, .* has INT4"),
        ("p/Laguna-XS-2.1-INT4", INT4, "p/Laguna-XS-2.1-DFlash", "trained for bf16 weights, .* has INT4"),
        ("p/Laguna-XS-2.1-oQ4e", AFFINE, "p/Laguna-XS-2.1-DFlash-INT4", "trained for INT4 .* has another packing"),
        ("p/Laguna-XS.2", {}, "p/Laguna-XS-2.1-DFlash", "trained for Laguna-XS-2.1, and this is Laguna-XS.2"),
    ],
)
def test_a_mismatch_of_names_is_told(target: str, raw: dict[str, Any], speculator: str, told: str | None) -> None:
    found = warned(target, raw, speculator)
    assert len(found) == (told is not None)
    assert told is None or re.search(told, found[0])


@pytest.mark.parametrize("speculator", ["p/Laguna-XS-2.1-DFlash", "p/Laguna-XS-2.1-DFlash-FP8", "p/mine"])
def test_a_rotated_target_wants_a_speculator_of_its_own_name(speculator: str) -> None:
    raw = packed("pack-quantized", transform_config=ROTATION)
    (found,) = warned("poolside/Laguna-XS-2.1-INT4", raw, speculator)
    assert "rotated (R1)" in found
    assert "poolside/Laguna-XS-2.1-DFlash-INT4 is the one published for this target" in found
    assert warned("poolside/Laguna-XS-2.1-INT4", raw, "poolside/Laguna-XS-2.1-DFlash-INT4") == ()
