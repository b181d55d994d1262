"""The fuzz targets under hypothesis, for a moment and, by a mark, at length; and under atheris where it is there."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from models.tokenizer import Tokenizer
from tests.faults.fuzzing import SCHEMAS, Target, embedded_tokenizer, reader, rendering, routed
from tests.faults.tally import Tally
from tests.server.hostile import BODIES, VALUES

EXAMPLES, AT_LENGTH = 60, 4000
LENGTHS = [EXAMPLES, pytest.param(AT_LENGTH, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
ROOT = Path(__file__).parents[2]


def fuzzed(target: Target, data: st.SearchStrategy[bytes], examples: int) -> int:
    """How many inputs were tried."""
    count = 0

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples == EXAMPLES,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(data)
    def run(given: bytes) -> None:
        nonlocal count
        count += 1
        target(given)

    run()
    return count


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return embedded_tokenizer()


@pytest.mark.parametrize("examples", LENGTHS)
def test_whatever_the_model_writes_is_read(examples: int, tally: Tally) -> None:
    tally.case("fuzzing: the reader", tried=fuzzed(reader, st.binary(max_size=60), examples))


@pytest.mark.parametrize("examples", LENGTHS)
@pytest.mark.parametrize("dialect", SCHEMAS)
def test_whatever_comes_is_understood_or_refused(dialect: str, examples: int, tally: Tally) -> None:
    shapes = BODIES | st.fixed_dictionaries({"input": VALUES, "prompt": VALUES, "max_tokens": VALUES})
    data = st.binary(max_size=80) | shapes.map(lambda body: json.dumps(body).encode())
    tally.case(f"fuzzing: bodies of {dialect}", tried=fuzzed(SCHEMAS[dialect], data, examples))


@pytest.mark.parametrize("examples", LENGTHS)
def test_whatever_a_message_says_is_rendered_as_text(tokenizer: Tokenizer, examples: int, tally: Tally) -> None:
    tally.case("fuzzing: the template", tried=fuzzed(rendering(tokenizer), st.binary(max_size=60), examples))


@pytest.mark.parametrize("examples", LENGTHS)
def test_whatever_comes_to_any_route_is_answered_or_refused(examples: int, tally: Tally) -> None:
    with routed() as target:
        tally.case("fuzzing: routes", tried=fuzzed(target, st.binary(max_size=60), examples))


@pytest.mark.long
@pytest.mark.parametrize("name", ["reader", "template", "routes", *SCHEMAS])
def test_coverage_finds_no_input_that_raises(name: str, tally: Tally) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.guided", name, "-max_total_time=60"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    tally.case(f"fuzzing by coverage: {name}")
