"""One server with the embedded pair for all clients. They are an extra of their own, without which none is run."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from models.runtime import load_runtime
from server.settings import Settings
from tests.clients.ask import CONTEXT
from tests.server.stand import running, wait_until

# Read at import: these two would ask the network for prices and send traces to it.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["OPENAI_API_KEY"] = "none"

INSTALLED = all(find_spec(name) for name in ("agents", "langchain_openai", "langchain_tests", "litellm", "smolagents"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These libraries take seconds to import, and change the process: no other run imports them."""
    wanted = INSTALLED and "not clients" not in config.option.markexpr
    theirs = collection_path.match("tests/clients/test_*.py") and collection_path.name != "test_node.py"
    return True if theirs and not wanted else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A run of their own: what they warn of, and leave open, is theirs."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_node.py":
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def base() -> Iterator[str]:
    """The address of the API."""
    with running(partial(load_runtime, None, "auto"), Settings(context_length=CONTEXT)) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
async def _one_loop(anyio_backend: str) -> AsyncIterator[None]:
    """Some clients keep their connections from one test to the next, and those belong to a loop."""
    await asyncio.sleep(0)
    yield
    await asyncio.sleep(0)
