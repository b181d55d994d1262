"""The measurement on a loaded pair, and how its outcome is read."""

import math

import pytest

from models.checkpoint import embedded_path
from models.exactness import Difference, Flip
from models.tokenizer import Tokenizer
from server.doctor.exactness import Probe, built_in, exactness_findings, probe
from server.doctor.finding import Finding, Unread
from server.settings import Settings


def test_on_the_embedded_pair_no_block_differs_from_single_steps() -> None:
    told: list[tuple[int, int]] = []
    found = probe(Settings(), 12, lambda *news: told.append(news))
    assert found.dtype == "float32"
    # Inside the window of 64, across its edge, and well past it.
    assert found.prompts == (24, 58, 144)
    assert [difference.rows for difference in found.differences] == [1, 3, 4, 5, 9, 16]
    assert {difference.positions for difference in found.differences} == {36}
    # OpenBLAS rounds blocks in another way than single rows, the BLAS of MLX's wheel does not.
    assert max(difference.largest for difference in found.differences) < 1e-3
    assert [difference.flips for difference in found.differences] == [()] * 6
    assert {finding.level for finding in exactness_findings(found)} == {"ok"}
    assert told[-1] == (21, 21)


def test_without_a_speculator_the_widths_of_the_usual_block_are_tried() -> None:
    found = probe(Settings(speculator="none"), 1, lambda done, total: None)
    assert [difference.rows for difference in found.differences] == [1, 3, 4, 5, 9, 16]


def test_prompts_leave_room_for_what_follows_and_need_no_window() -> None:
    tokenizer = Tokenizer.load(embedded_path())
    assert [len(prompt) for prompt in built_in(tokenizer, 512, 64, 4096)] == [24, 480, 1040]
    assert [len(prompt) for prompt in built_in(tokenizer, 0, 64, 4096)] == [16, 24]
    assert [len(prompt) for prompt in built_in(tokenizer, 512, 64, 100)] == [24, 36]


def finding(dtype: str, *flips: Flip, largest: float = 0.5) -> Finding:
    (found,) = exactness_findings(Probe(dtype, (24,), (Difference(9, 64, largest, flips, 0.125),)))
    return found


def test_a_difference_that_changes_no_choice_is_in_order() -> None:
    assert finding("bfloat16") == Finding(
        "exactness", "ok", "blocks of 9: 64 positions, largest difference 0.5, no choice differs (closest margin 0.125)"
    )


def test_choices_that_change_at_near_ties_are_a_warning() -> None:
    found = finding("bfloat16", *(Flip(0, 30 + i, margin, 20.0) for i, margin in enumerate((0.0, 0.125, 0.25))))
    assert found.level == "warn"
    assert found.said.endswith("3 choices differ at margins of 0.25, 0.125, 0")
    assert "near ties in bfloat16" in found.advice


@pytest.mark.parametrize(("dtype", "margin"), [("bfloat16", 1.5), ("float32", 0.125)])
def test_choices_that_rounding_does_not_explain_fail(dtype: str, margin: float) -> None:
    found = finding(dtype, Flip(0, 30, 0.0, 20.0), Flip(0, 31, margin, 20.0))
    assert found.level == "fail"
    assert "--speculation off" in found.advice


def test_only_the_widest_margins_are_listed() -> None:
    assert finding("bfloat16", *(Flip(0, i, i / 100, 20.0) for i in range(6))).said.endswith(
        "6 choices differ at margins of 0.05, 0.04, 0.03, 0.02 and less"
    )


def test_what_is_no_number_or_was_not_measured_fails() -> None:
    assert finding("float32", largest=math.nan).level == "fail"
    assert exactness_findings(Unread("no such model"))[0].said == "could not be measured: no such model"
