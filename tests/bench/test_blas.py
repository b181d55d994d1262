"""What an OpenBLAS is told about a processor that it does not know."""

from pathlib import Path

import pytest

from tests.bench.blas import chosen_core, core_type, environment, find_openblas, processor_flags


@pytest.mark.parametrize(
    ("chosen", "flags", "told"),
    [
        ("Prescott", {"avx2", "avx512vl"}, {"OPENBLAS_CORETYPE": "SkylakeX"}),
        ("Prescott", {"avx2"}, {"OPENBLAS_CORETYPE": "Haswell"}),
        ("Prescott", {"sse3"}, {}),
        ("Haswell", {"avx2", "avx512vl"}, {}),
        ("", {"avx2"}, {}),
    ],
)
def test_only_an_openblas_that_fell_back_is_told_what_the_processor_can_do(
    chosen: str, flags: set[str], told: dict[str, str]
) -> None:
    assert core_type(chosen, flags) == told


def test_the_flags_of_all_processors_are_read(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: fpu avx512vl\n")
    assert processor_flags(told) == {"fpu", "avx2", "avx512vl"}
    assert processor_flags(tmp_path / "absent") == frozenset()


def test_what_the_user_said_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    assert environment(tmp_path / "libblas.so.3")["OPENBLAS_CORETYPE"] == "Zen"


def test_an_installed_openblas_says_what_it_chose() -> None:
    library = find_openblas()
    if library is None:
        pytest.skip("OpenBLAS is not installed")
    assert chosen_core({"LD_PRELOAD": str(library), "OPENBLAS_CORETYPE": "Prescott"}) == "Prescott"
