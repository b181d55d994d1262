"""Clients that run on Node: openai, @anthropic-ai/sdk and Vercel's AI SDK. `pytest -m node` installs and runs them."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "node"
pytestmark = pytest.mark.node


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts and the packages they want."""
    folder = tmp_path_factory.mktemp("node")
    for path in HERE.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    npm = shutil.which("npm")
    assert npm is not None, "these tests want npm"
    subprocess.run([npm, "install", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=300)
    return folder


@pytest.mark.timeout(400)
@pytest.mark.parametrize("client", ["openai", "anthropic", "ai-sdk"])
def test_a_client_on_node_streams_calls_reads_types_and_raises(installed: Path, base: str, client: str) -> None:
    node = shutil.which("node")
    assert node is not None, "these tests want node"
    ran = subprocess.run(
        [node, f"{client}.mjs", base], cwd=installed, check=False, timeout=90, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
