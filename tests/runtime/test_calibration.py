import json
from dataclasses import replace
from pathlib import Path

import pytest

from models.calibration import CalibrationError, Measured, read_calibration, write_calibration
from models.decode.acceptance import Acceptance, Record, Subject
from models.decode.calibration import saved
from models.decode.costs import Costs
from models.decode.reading import Others, Reading
from models.decode.width import Table, candidates
from models.loading import Loading
from models.runtime import load_runtime

HERE = Measured.here("laguna-tiny", "laguna-tiny/speculator")
TABLE = Table(
    candidates(8),
    costs=Costs().after("plain", 1, 0, 0.01).after("drafted", 4, 2, 0.02),
    record=Record({Subject("speculator", "thinking"): Acceptance.of([0.5, 0.25], 4)}),
    reading=Reading.of({Others.of(2, drafting=True): 0.01}, {16: 0.002, 64: 0.005}),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "calibration.json"
    write_calibration(path, HERE, TABLE)
    return path


def test_a_calibration_is_read_back_from_its_file(file: Path) -> None:
    assert saved(read_calibration(file, HERE)) == saved(TABLE)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "other",
    [
        replace(HERE, device="another"),
        replace(HERE, dtype="float16"),
        replace(HERE, target="other"),
        replace(HERE, speculator=None),
        Measured.here("laguna-tiny", "laguna-tiny/speculator", Loading(kv_bits=4)),
        Measured.here("laguna-tiny", "laguna-tiny/speculator", Loading(speculator_bits=4)),
        Measured.here("laguna-tiny", "laguna-tiny/speculator", Loading(fp8_bits=8)),
    ],
)
def test_a_calibration_of_another_machine_or_pair_is_refused(file: Path, other: Measured) -> None:
    with pytest.raises(CalibrationError, match=r"was measured on .* leave it out, or measure again"):
        read_calibration(file, other)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read"),
        ("[]", "is no calibration of format 2"),
        ('{"format": 3}', "is no calibration of format 2"),
        ('{"format": 1}', "was measured on None"),
        ('{"format": 2}', "was measured on None"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_damaged_calibration_is_refused(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(CalibrationError, match=told):
        read_calibration(file, HERE)


def test_a_wrong_number_in_it_is_named(file: Path) -> None:
    file.write_text(file.read_text().replace("0.02", "-1"))
    with pytest.raises(CalibrationError, match=r"costs\[0\].seconds is -1"):
        read_calibration(file, HERE)


def test_a_file_from_before_prompts_were_paced_is_read_without_a_pace(file: Path) -> None:
    value = json.loads(file.read_text())
    assert (value.pop("usual"), value.pop("extra")) != ([], [])
    file.write_text(json.dumps(value | {"format": 1}))
    assert saved(read_calibration(file, HERE)) == saved(TABLE) | {"usual": [], "extra": []}


def test_a_file_from_before_packing_was_told_is_one_of_a_pair_as_published(file: Path) -> None:
    value = json.loads(file.read_text())
    del value["measured"]["packed"]
    file.write_text(json.dumps(value))
    assert saved(read_calibration(file, HERE)) == saved(TABLE)
    with pytest.raises(CalibrationError, match="was measured on"):
        read_calibration(file, replace(HERE, packed={"kv": 8}))


def test_a_missing_calibration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read"):
        load_runtime(loading=Loading(calibration=tmp_path / "none.json"))


def test_a_runtime_starts_from_its_calibration(tmp_path: Path) -> None:
    plain = load_runtime()
    path = tmp_path / "calibration.json"
    write_calibration(path, Measured.here(plain.model_id, plain.speculator_id), TABLE)
    runtime = load_runtime(loading=Loading(calibration=path))
    assert saved(runtime.batch().learned) == saved(TABLE)
    assert saved(plain.batch().learned) == {"costs": [], "acceptance": [], "usual": [], "extra": []}
    with pytest.raises(CalibrationError, match=r"was measured on .*'kv': 8"):
        load_runtime(loading=Loading(calibration=path, kv_bits=8))
