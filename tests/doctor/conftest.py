"""A whole made-up checkpoint, to be damaged in copies."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from server.doctor.examine import examine
from server.doctor.finding import Finding, Level
from server.settings import Settings
from tests.models.tiny_checkpoint import SPECULATOR, write_pair
from tests.runtime.checkpoint_files import byte_level_bpe, write_json, write_tokenizer

WIDTH = 384
IDS = byte_level_bpe().get_vocab(with_added_tokens=True)
ENDS = {"eos_token_id": [IDS["〈|EOS|〉"], IDS["</assistant>"]]}

Copied = Callable[[], Path]


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random pair with tokenizer and template in which nothing is wrong."""
    folder = tmp_path_factory.mktemp("models") / "Laguna-Random"
    block = SPECULATOR["dflash_config"] | {"mask_token_id": IDS["〈|MASK|〉"]}
    sizes = {"vocab_size": WIDTH, "draft_vocab_size": WIDTH, "dflash_config": block}
    write_pair(folder, speculator=sizes, vocab_size=WIDTH, eos_token_id=ENDS["eos_token_id"])
    write_json(folder / "generation_config.json", ENDS)
    return write_tokenizer(folder)


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Copied:
    """Makes a copy of it under the same name."""
    return lambda: shutil.copytree(sound, tmp_path / sound.name)


def changed(path: Path, **fields: object) -> None:
    """Replace fields of a JSON file; None takes one away."""
    raw = json.loads(path.read_text("utf-8")) | fields
    write_json(path, {name: value for name, value in raw.items() if value is not None})


def examined(model: Path | str, speculator: Path | str = "auto", **settings: object) -> list[Finding]:
    """What the doctor finds; port 0 is always free."""
    asked = {"model": str(model), "speculator": str(speculator), "port": 0} | settings
    return examine(Settings.model_validate(asked))


def told(findings: list[Finding], area: str) -> tuple[Level, str]:
    """The gravest finding of an area, with its advice."""
    own = [finding for finding in findings if finding.area == area]
    found = next((f for level in ("fail", "warn", "ok") for f in own if f.level == level), None)
    assert found is not None, findings
    return found.level, f"{found.said} -> {found.advice}"
