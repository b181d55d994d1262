"""The made-up tokenizer in both dialects, loaded once."""

import pytest

from models.tokenizer import Tokenizer
from tests.runtime.checkpoint_files import ONE_LINE, WITH_NEWLINES, write_tokenizer


@pytest.fixture(scope="session")
def one_line(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(write_tokenizer(tmp_path_factory.mktemp("one-line"), template=ONE_LINE))


@pytest.fixture(scope="session")
def with_newlines(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(write_tokenizer(tmp_path_factory.mktemp("with-newlines"), template=WITH_NEWLINES))
