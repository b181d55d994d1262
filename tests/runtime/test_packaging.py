"""What the distribution promises about its names."""

import tomllib
from importlib import metadata, util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def owners() -> dict[str, list[str]]:
    """Top-level package to the distributions that ship it."""
    return {name: list(dists) for name, dists in metadata.packages_distributions().items()}


@pytest.mark.parametrize("name", ["server", "models", "tools"])
def test_no_dependency_ships_a_package_of_our_name(owners: dict[str, list[str]], name: str) -> None:
    assert set(owners.get(name, [])) <= {PROJECT["project"]["name"]}
    spec = util.find_spec(name)
    assert spec is not None
    assert spec.origin == str(ROOT / name / "__init__.py")


def test_every_package_of_ours_is_named_in_the_wheel() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_every_test_folder_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
