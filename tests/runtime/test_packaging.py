"""What the distribution promises about its names."""

import re
import subprocess
import tomllib
from importlib import metadata, util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"server", "models", "tools", "tests"}
FILES = {"Dockerfile.dev", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "uv.lock"}
MADE = {"PKG-INFO", "build", "dist", "laguna_server.egg-info"}
"""What packing and unpacking leave, where no git tells what is ours."""
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


def tracked() -> set[str]:
    """The paths that git tracks; those of the top level, where there is no repository."""
    if not (ROOT / ".git").exists():
        return {path.name for path in ROOT.iterdir()} - MADE
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")) - {""}


def test_the_top_level_holds_the_named_folders_and_files_and_nothing_else() -> None:
    top = {name.partition("/")[0] for name in tracked()}
    assert {name for name in top - FOLDERS - FILES if not name.startswith(".")} == set()
    assert {*FOLDERS, *FILES} - top <= {"uv.lock"}


def test_every_path_that_the_dockerfile_copies_exists_and_every_folder_is_copied() -> None:
    copies = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile.dev").read_text("utf-8"), re.MULTILINE)
    copied = {path for line in copies for path in line.split()}
    assert {path for path in copied if not (ROOT / path).exists()} == set()
    assert copied >= FOLDERS | FILES - {"uv.lock"}
