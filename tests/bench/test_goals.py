from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.bench.blas import environment, find_openblas
from tests.bench.goals import missed
from tests.bench.growth import table

GOOD: dict[str, Any] = {
    "ratios": {"off_to_mlx_lm": 1.0, "auto_to_off": 2.5, "always_to_off": 2.4},
    "overhead": {"off": 0.02, "auto": 0.04, "always": 0.05},
    "reads_per_step": 1.0,
    "rollback": {"ratio": 0.04},
    "coupled": {"0.7": {"all": {"ratio": 1.05}}, "1.0": {"all": {"ratio": 1.1}}},
    "memory": {"ours": {"peak": 1.1, "peak_per_token": 1.0}},
    "lossless": {"ours": 1.0},
    "growth": {
        "ours": {"ratio": 2.5, "long_ms": 80.0},
        "ours_plain": {"long_ms": 9.0},
        "mlx_lm_plain": {"long_ms": 10.0},
    },
    "texts_that_differ": {"auto": 0, "always": 0, "mlx_lm": 3},
}


def changed(**parts: dict[str, Any]) -> dict[str, Any]:
    figures = deepcopy(GOOD)
    for name, values in parts.items():
        figures[name] |= values
    return figures


def test_figures_that_reach_every_goal_miss_none() -> None:
    assert missed({"bundled": GOOD, "openblas": GOOD}) == []


def test_every_missed_figure_is_named_with_its_goal() -> None:
    lines = missed({"bundled": changed(ratios={"off_to_mlx_lm": 0.9}, overhead={"always": 0.2}), "openblas": GOOD})
    assert lines == [
        "bundled: plain decoding against mlx-lm is 0.900, to reach at least 0.97",
        "bundled: loop overhead of a block round, in plain steps is 0.200, to reach at most 0.1",
    ]


def test_drafts_that_are_accepted_as_often_as_the_likeliest_gain_nothing() -> None:
    tied = changed(coupled={"0.7": {"all": {"ratio": 1.0}}})
    assert missed({"openblas": tied}) == [
        "openblas: drafts coupled where it pays against likeliest ones at 0.7 is 1.000, to reach at least 1.001"
    ]


def test_a_long_context_is_compared_with_the_peer_where_it_is_installed() -> None:
    slower = changed(growth={"ours": {"ratio": 3.0, "long_ms": 80.0}, "mlx_vlm": {"ratio": 2.0, "long_ms": 90.0}})
    assert missed({"openblas": slower}) == [
        "openblas: 16 rows at 8k over 512 tokens, against mlx-vlm's is 1.500, to reach at most 1.0"
    ]


def test_a_peer_that_is_not_installed_is_told_to_be_absent() -> None:
    brief = {"short_ms": 1.0, "long_ms": 2.0, "ratio": 2.0}
    figures = {"growth": {"ours": brief}, "memory": {}}
    assert "mlx-vlm is not installed" in table(figures)["mlx-vlm"]
    assert "mlx-vlm" not in table(figures | {"growth": {"mlx_vlm": brief}})


def test_the_speed_up_is_asked_for_where_rows_are_cheap_only() -> None:
    slow = changed(ratios={"auto_to_off": 1.0, "always_to_off": 0.5})
    assert missed({"bundled": slow}) == []
    assert len(missed({"openblas": slow})) == 1


def test_a_text_that_differs_is_a_miss_with_exact_arithmetic() -> None:
    differs = changed(texts_that_differ={"always": 2})
    assert missed({"bundled": differs}) == ["bundled: always wrote 2 other texts than plain decoding"]
    assert missed({"openblas": differs}) == []


def test_a_run_that_could_not_be_made_is_a_miss() -> None:
    assert missed({"openblas": None}) == ["openblas: not measured, the library was not found"]


def test_openblas_is_found_where_distributions_put_it(tmp_path: Path) -> None:
    assert find_openblas(root=tmp_path) is None
    library = tmp_path / "usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_openblas(root=tmp_path) == library
    assert environment(library)["LD_PRELOAD"] == str(library)
    assert "LD_PRELOAD" not in environment(None)
