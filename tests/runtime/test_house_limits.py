"""Limits on size and habit that keep each file readable in one sitting."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for name in ("server", "models", "tools", "tests")
    for path in sorted((ROOT / name).rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}
FILE_LINES = 320
FUNCTION_LINES = 40
VAGUE = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def test_a_file_fits_in_one_reading() -> None:
    lengths = {name: len(text.splitlines()) for name, text in SOURCES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_a_function_fits_on_one_screen() -> None:
    lengths = {
        f"{name}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_nothing_is_global_and_no_object_is_probed() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Global)
        or (isinstance(node, ast.Name) and node.id in ("hasattr", "getattr", "setattr", "eval", "exec"))
    ]
    assert found == []


def test_a_file_has_a_name_that_says_something_and_hides_no_module() -> None:
    stems = {name: Path(name).stem for name in SOURCES}
    assert {name for name, stem in stems.items() if stem in VAGUE or stem in sys.stdlib_module_names} == set()


def test_no_test_is_read_by_another() -> None:
    imported = {
        f"{name}: {node.module}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")
    }
    assert {found for found in imported if ".test_" in found} == set()
