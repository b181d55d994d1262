"""`laguna pull` against a hub of the tests' own."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from models.checkpoint import embedded_path
from server.cli import main
from tests.models.fake_hub import Repository, files, serving


def pulled(hub_url: str, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "server", "pull", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        env=os.environ | {"HF_ENDPOINT": hub_url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home)},
    )


def test_a_pair_is_fetched_and_said_where_it_lies(tmp_path: Path) -> None:
    with serving() as hub:
        hub.repositories["me/Tiny"] = Repository({"main": files(embedded_path())})
        hub.repositories["me/Tiny-DFlash"] = Repository({"main": files(embedded_path() / "speculator")})
        done = pulled(hub.url, tmp_path, "me/Tiny", "me/Tiny-DFlash")
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert first.startswith("target me/Tiny: ")
        assert second.startswith("speculator me/Tiny-DFlash: ")
        assert (Path(first.partition(" in ")[2]) / "model.safetensors").is_file()
        missing = pulled(hub.url, tmp_path, "me/Nothing")
        assert missing.returncode == 1
        assert "me/Nothing" in missing.stdout


def test_without_a_model_there_is_nothing_to_fetch() -> None:
    result = CliRunner().invoke(main, ["pull"])
    assert result.exit_code == 0
    assert "nothing to fetch" in result.output


def test_what_is_neither_a_folder_nor_a_hub_id_is_refused() -> None:
    result = CliRunner().invoke(main, ["pull", "Laguna"])
    assert result.exit_code == 1
    assert "owner/name" in result.output
