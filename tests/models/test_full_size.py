"""Every published checkpoint is accepted in full size: no tensor missing, none left over, none of another shape."""

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from models.config import SpeculatorConfig, TargetConfig
from models.memory import footprint
from tests.models import published as of
from tests.models.full_size import CASES
from tests.runtime.readme import README

GIB = 2**30
# Whichever test comes first, alone too, waits for all of it.
pytestmark = pytest.mark.timeout(600)
PUBLISHED_GB = {
    "XS-2.1-NVFP4-mlx": 21.7,
    "S-2.1": 235.1,
    "S-2.1-FP8": 121.6,
    "S-2.1-NVFP4": 71.9,
    "S-2.1-INT4": 71.9,
    "XS-2.1-DFlash": 0.924,
}
"""What model cards say, where they do; the same sum of tensors shows that the lists here are theirs."""
PARAMETERS = {"XS-2.1": 33e9, "S-2.1": 117.6e9, "M.1": 225e9}
DRAFT_TENSORS = {"XS-2.1-DFlash": 58, "S-2.1-DFlash": 69}


@pytest.fixture(scope="module")
def opened() -> dict[str, dict[str, Any]]:
    """What opening each of them took, by name; in processes of their own, since their memory is measured."""
    command = [sys.executable, "-W", "error", "-m", "tests.models.full_size"]
    names = list(CASES)
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as ended:
        runs: list[subprocess.Popen[str]] = []
        for half in (names[::2], names[1::2]):
            run = subprocess.Popen([*command, *half], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            runs.append(ended.enter_context(run))
            # A time-out here must not leave it behind, a core for itself.
            ended.callback(run.kill)
        for run, (out, error) in [(run, run.communicate()) for run in runs]:
            lines = [json.loads(line) for line in out.splitlines()]
            found |= {line["name"]: line for line in lines}
            assert run.returncode == 0, f"after {lines[-1:]}: {error[-2000:]}"
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_published_tensor_has_its_place_and_nothing_is_read(opened: dict[str, dict[str, Any]], name: str) -> None:
    assert opened[name]["peak"] < GIB


def test_the_lists_of_tensors_add_up_to_what_is_published(opened: dict[str, dict[str, Any]]) -> None:
    sizes = {name: opened[name]["bytes"] / 1e9 for name in PUBLISHED_GB}
    assert sizes == pytest.approx(PUBLISHED_GB, rel=2e-3)
    parameters = {name: opened[name]["bytes"] / 2 for name in PARAMETERS}
    assert parameters == pytest.approx(PARAMETERS, rel=0.02)
    assert {name: opened[name]["tensors"] for name in DRAFT_TENSORS} == DRAFT_TENSORS


def test_the_three_spellings_of_the_older_model_are_one_network() -> None:
    flat, twice, mixed = (TargetConfig.from_dict(raw) for raw in (of.XS_2_FLAT, of.XS_2_TWICE, of.XS_2_MIXED))
    ropes = [config.attention[0].rope for config in (flat, twice, mixed)]
    assert [(rope.factor, rope.original_length, rope.theta, rope.dims) for rope in ropes] == [
        (32.0, 4096, 500000.0, 64),
        (32.0, 4096, 500000.0, 64),
        (64.0, 4096, 500000.0, 64),
    ]
    assert {config.attention[1].rope.theta for config in (flat, twice, mixed)} == {10000.0}
    assert {config.attention[1].rope.dims for config in (flat, twice, mixed)} == {128}


def test_the_larger_model_is_read_for_both_lengths() -> None:
    short, long = TargetConfig.from_dict(of.S_2_1), TargetConfig.from_dict(of.S_2_1_LONG)
    assert [(a.heads, a.window) for a in long.attention[:4]] == [(48, None), (72, 512), (72, 512), (72, 512)]
    assert (short.max_position_embeddings, long.max_position_embeddings) == (262144, 1048576)
    assert [c.attention[0].rope.factor for c in (short, long)] == [32.0, 128.0]
    assert all(
        c.attention[0].rope.derived_factor == pytest.approx(c.attention[0].rope.attention_factor) for c in (short, long)
    )
    assert long.experts is not None
    assert (long.experts.per_token, long.experts.intermediate_size) == (10, 1024)


ROWS = {
    "XS.2 and XS-2.1, bf16": ["XS.2", "XS.2, flat rope", "XS.2, early", "XS-2.1"],
    "XS.2-FP8 and XS-2.1-FP8": ["XS.2-FP8", "XS-2.1-FP8"],
    "XS.2-INT4 and XS-2.1-INT4": ["XS.2-INT4", "XS-2.1-INT4"],
    "XS-2.1, MLX 8 bit": ["XS-2.1, 8-bit MLX"],
    "XS-2.1, MLX 4 bit": ["XS-2.1, 4-bit MLX with a bare router"],
    "S-2.1, bf16": ["S-2.1"],
    "S-2.1, MLX mixed by module": ["S-2.1, MLX mixed by module"],
    "M.1, bf16": ["M.1"],
    "XS-2.1-DFlash, every suffix": ["XS-2.1-DFlash"],
    "S-2.1-DFlash, every suffix": ["S-2.1-DFlash"],
}
"""What a row of the README is about, where it is not called like its case."""


def test_the_readmes_table_has_the_sums_of_what_was_opened(opened: dict[str, dict[str, Any]]) -> None:
    table = README.partition("### What loads")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.splitlines() if line.startswith("| ")][1:]
    shown = {case: (file, held) for name, file, held in rows for case in ROWS.get(name, [name])}
    seen = {name: (f"{found['bytes'] / 1e9:.1f}", f"{found['held'] / 1e9:.1f}") for name, found in opened.items()}
    assert len(shown) >= 20
    assert shown == {name: seen[name] for name in shown}
    for name in ("XS-2.1-FP8, packed again", "S-2.1-FP8, packed again"):
        assert f"`--quantize-fp8 8` {opened[name]['held'] / 1e9:.1f}" in table


NEEDED = {
    "XS-2.1": (of.XS_2_1, of.XS_2_1_DFLASH, "XS-2.1-DFlash"),
    "S-2.1": (of.S_2_1, of.S_2_1_DFLASH, "S-2.1-DFlash"),
    "M.1": (of.M_1, None, None),
}
"""A model of the short table, by its name: its configuration, and its speculator's with its case."""
PRECISIONS = {
    "MLX 4 bit": ", 4-bit MLX with a bare router",
    "MLX 8 bit": ", 8-bit MLX",
    "MLX mixed by module": ", MLX mixed by module",
    "FP8, with `--quantize-fp8 8`": "-FP8, packed again",
    "bf16": "",
}


def test_the_readmes_short_table_says_what_is_fetched_and_what_is_needed(opened: dict[str, dict[str, Any]]) -> None:
    section = README.partition("## Real models")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in section.splitlines() if line.startswith("| ")]
    name, wrong = "", list[str]()
    for model, precision, download, needs in rows[1:]:
        name = next((known for known in NEEDED if f" {known} " in model), name)
        target, draft, partner = NEEDED[name]
        found = opened[name + PRECISIONS.get(precision, f"-{precision}")]
        drafts = opened[partner] if partner is not None else {"bytes": 0, "held": 0}
        sums = footprint(
            TargetConfig.from_dict(target),
            None if draft is None else SpeculatorConfig.from_dict(draft),
            width=2,
            target_weights=found["held"],
            speculator_weights=drafts["held"],
        )
        sizes = (f"{(found['bytes'] + drafts['bytes']) / 1e9:.1f}", f"{sums.least(32768) / 1e9:.1f}")
        wrong += [f"{name} {precision}: {' and '.join(sizes)}"] if sizes != (download, needs) else []
        told = f"{sums.session(32768) / 1e9:.1f} GB with {name.removesuffix('-2.1')}"
        assert told in " ".join(section.split())
    assert len(rows) == 16
    assert not wrong, "\n".join(wrong)
